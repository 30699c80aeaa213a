#include "kube/kube_list_stream.h"

#include <string.h>

#define ITEM(name) "{\"metadata\":{\"name\":\"" name "\"},\"x\":[[1],{\"y\":\"]}\\\"\\\\\"}]}"

static gboolean
note (KubeObject *object, gpointer data, GError **error)
{
  g_string_append_printf (data, "%s ", kube_object_name (object));
  return strcmp (kube_object_name (object), "stop") != 0 || am_fail (error, AM_ERROR_CANCELLED, NULL, "stop");
}

static KubeObject *
feed (const char *text, gsize size, gsize piece, GString *seen, GError **error)
{
  g_auto (KubeListStream) stream = { 0 };
  kube_list_stream_init (&stream, note, seen);
  for (gsize done = 0; done < size; done += MIN (piece, size - done))
    if (!kube_list_stream_feed (&stream, text + done, MIN (piece, size - done), error))
      return NULL;
  return kube_list_stream_end (&stream, error);
}

static void
test_lists (void)
{
  static const struct {
    const char *text, *seen, *version;
  } rows[] = {
    /* Custom resources come with the items first, others with the metadata first. */
    { "{\"apiVersion\":\"v1\",\"items\":[" ITEM ("a") "," ITEM ("b") "],\"metadata\":{\"resourceVersion\":\"7\"}}\n",
      "a b ", "7" },
    { "{\"metadata\":{\"resourceVersion\":\"8\"},\"items\":[" ITEM ("a") "]}", "a ", "8" },
    { " { \"metadata\" : { \"resourceVersion\":\"9\" } ,\n \"items\" :\t[ " ITEM ("a") " ,\r\n" ITEM ("b") " ] } ",
      "a b ", "9" },
    { "{\"metadata\":{},\"items\":[]}", "", "" },
    { "{\"metadata\":{},\"items\":null}", "", "" },
    { "{\"metadata\":{}}", "", "" },
    /* What is called so elsewhere is not the list's. */
    { "{\"metadata\":{\"items\":[{}]},\"more\":[{\"items\":[" ITEM ("x") "]}],\"items\":[" ITEM ("a") "]}", "a ",
      "" },
    { "{\"metadata\":{},\"\\\"items\":[" ITEM ("x") "],\",\\\"items\":[" ITEM ("x") "],\"kind\":\"items\"}", "", "" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    for (gsize piece = 1; piece <= strlen (rows[i].text); piece++)
      {
        g_autoptr (GError) error = NULL;
        g_autoptr (GString) seen = g_string_new (NULL);
        g_autoptr (KubeObject) list = feed (rows[i].text, strlen (rows[i].text), piece, seen, &error);
        g_assert_no_error (error);
        g_assert_cmpstr (seen->str, ==, rows[i].seen);
        g_assert_cmpstr (kube_object_resource_version (list), ==, rows[i].version);
      }
}

static void
test_failures (void)
{
  static const struct {
    const char *text;
    AmErrorCode code;
    const char *seen;
  } rows[] = {
    { "{\"metadata\":{},\"items\":[" ITEM ("a") ",3]}", AM_ERROR_DATA_LOSS, "a " },
    { "{\"metadata\":{},\"items\":[[]]}", AM_ERROR_DATA_LOSS, "" },
    { "{\"metadata\":{},\"items\":[" ITEM ("a") ",{}]}", AM_ERROR_DATA_LOSS, "a " },
    { "{\"metadata\":{},\"items\":[{\"metadata\":{]}]}", AM_ERROR_DATA_LOSS, "" },
    { "{\"metadata\":{},\"items\":[" ITEM ("a") "," ITEM ("stop") "," ITEM ("b") "]}", AM_ERROR_CANCELLED,
      "a stop " },
    { "{\"metadata\":{},\"items\":[" ITEM ("a"), AM_ERROR_DATA_LOSS, "a " },
    { "{\"metadata\":{},\"items\":[" ITEM ("a") "]", AM_ERROR_DATA_LOSS, "a " },
    { "{\"metadata\":{},\"items\":[]}]", AM_ERROR_DATA_LOSS, "" },
    { "{\"items\":[" ITEM ("a") "]}", AM_ERROR_DATA_LOSS, "a " },
    { "no JSON", AM_ERROR_DATA_LOSS, "" },
    { "", AM_ERROR_DATA_LOSS, "" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    for (gsize piece = 1; piece <= strlen (rows[i].text) + 1; piece += 3)
      {
        g_autoptr (GError) error = NULL;
        g_autoptr (GString) seen = g_string_new (NULL);
        g_assert_null (feed (rows[i].text, strlen (rows[i].text), piece, seen, &error));
        g_assert_true (am_error_is (error, rows[i].code));
        g_assert_cmpstr (seen->str, ==, rows[i].seen);
      }
}

/* Below the items, nothing is nested deeper than a document may be. */
static void
test_depth (void)
{
  for (int depth = JSON_MAX_DEPTH - 3; depth <= JSON_MAX_DEPTH + 3; depth++)
    {
      g_autoptr (GString) text = g_string_new ("{\"metadata\":{},\"items\":[{\"metadata\":{},\"x\":");
      g_autoptr (GString) seen = g_string_new (NULL);
      g_autoptr (GError) error = NULL;
      for (int i = 1; i < depth; i++)
        g_string_append_c (text, '[');
      for (int i = 1; i < depth; i++)
        g_string_append_c (text, ']');
      g_string_append (text, "}]}");
      g_autoptr (KubeObject) list = feed (text->str, text->len, 10, seen, &error);
      g_assert_true ((list != NULL) == (depth <= JSON_MAX_DEPTH));
      g_assert_true (list != NULL || am_error_is (error, AM_ERROR_DATA_LOSS));
    }
}

static void
test_limits (void)
{
  static const char *const beginnings[] = { "{\"metadata\":{},\"items\":[{\"metadata\":{\"name\":\"",
                                            "{\"metadata\":{\"x\":\"" };
  g_autofree char *block = g_strnfill (1 << 20, 'a');
  for (gsize i = 0; i < G_N_ELEMENTS (beginnings); i++)
    {
      g_auto (KubeListStream) stream = { 0 };
      g_autoptr (GError) error = NULL;
      g_autoptr (GString) seen = g_string_new (NULL);
      kube_list_stream_init (&stream, note, seen);
      g_assert_true (kube_list_stream_feed (&stream, beginnings[i], strlen (beginnings[i]), &error));
      guint n = 0;
      while (kube_list_stream_feed (&stream, block, 1 << 20, &error))
        g_assert_cmpuint (++n, <=, 16);
      g_assert_true (am_error_is (error, AM_ERROR_RESOURCE_EXHAUSTED));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/kube-list-stream/lists", test_lists);
  g_test_add_func ("/kube-list-stream/failures", test_failures);
  g_test_add_func ("/kube-list-stream/depth", test_depth);
  g_test_add_func ("/kube-list-stream/limits", test_limits);
  return g_test_run ();
}
