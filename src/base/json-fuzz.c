/* Any bytes as JSON: refused with a position, or within the depth limit; what a field table takes from it comes out of
 * writing and reading it again; whatever was read strictly is written as valid JSON. */
#include "base/json.h"

#include <string.h>

#include "base/error.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

#define LIMIT_BYTES (1u << 20)

typedef struct {
  char *text;
  guint64 count;
  gint64 number;
  gboolean flag;
  double real;
  GPtrArray *list;
} Bound;

static const JsonField fields[] = {
  JSON_FIELD (Bound, text, "s", JSON_STRING, FALSE),  JSON_FIELD (Bound, count, "u", JSON_UINT64, TRUE),
  JSON_FIELD (Bound, number, "i", JSON_INT64, FALSE), JSON_FIELD (Bound, flag, "b", JSON_BOOL, FALSE),
  JSON_FIELD (Bound, real, "d", JSON_DOUBLE, FALSE),  JSON_FIELD (Bound, list, "l", JSON_STRINGS, FALSE),
};

static void
bound_clear (Bound *self)
{
  json_clear (fields, G_N_ELEMENTS (fields), self);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Bound, bound_clear)

static void
check_depth (yyjson_val *value, guint depth)
{
  size_t index, n;
  yyjson_val *key, *item;
  g_assert_cmpuint (depth, <=, JSON_MAX_DEPTH + 1);
  if (yyjson_is_arr (value))
    yyjson_arr_foreach (value, index, n, item) check_depth (item, depth + 1);
  else if (yyjson_is_obj (value))
    yyjson_obj_foreach (value, index, n, key, item) check_depth (item, depth + 1);
}

static void
check_equal (const Bound *a, const Bound *b)
{
  g_assert_cmpstr (a->text, ==, b->text);
  g_assert_cmpuint (a->count, ==, b->count);
  g_assert_cmpint (a->number, ==, b->number);
  g_assert_cmpint (!a->flag, ==, !b->flag);
  g_assert_true (a->real == b->real || a->real != a->real || b->real == 0);
  g_assert_true ((a->list == NULL) == (b->list == NULL));
  for (guint i = 0; a->list != NULL && i < MAX (a->list->len, b->list->len); i++)
    g_assert_cmpstr (g_ptr_array_index (a->list, i), ==, g_ptr_array_index (b->list, i));
}

static void
check_bound (const Bound *bound)
{
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *object = yyjson_mut_obj (doc);
  gsize size;
  g_auto (Bound) again = { 0 };
  g_autoptr (GError) error = NULL;
  yyjson_mut_doc_set_root (doc, object);
  json_unbind (doc, object, fields, G_N_ELEMENTS (fields), bound);
  g_autofree char *text = json_write (doc, &size);
  g_assert_cmpuint (size, ==, strlen (text));
  g_autoptr (yyjson_doc) read = json_parse (text, size, G_MAXSIZE, JSON_STRICT, &error);
  g_assert_no_error (error);
  g_assert_true (json_bind (yyjson_doc_get_root (read), fields, G_N_ELEMENTS (fields), &again, &error));
  check_equal (bound, &again);
}

static void
check_writing (yyjson_doc *doc)
{
  g_autoptr (yyjson_mut_doc) copy = yyjson_doc_mut_copy (doc, NULL);
  g_autofree char *compact = json_write (copy, NULL), *pretty = json_write_pretty (copy);
  g_autoptr (GError) error = NULL;
  g_autoptr (yyjson_doc) one = json_parse (compact, strlen (compact), G_MAXSIZE, JSON_STRICT, &error);
  g_assert_no_error (error);
  g_autoptr (yyjson_doc) two = json_parse (pretty, strlen (pretty), G_MAXSIZE, JSON_STRICT, &error);
  g_assert_no_error (error);
  g_assert_true (yyjson_equals (yyjson_doc_get_root (one), yyjson_doc_get_root (two)));
}

static void
check_getters (yyjson_val *root)
{
  const char *text = json_get_string (root, "s");
  yyjson_val *object = json_get_object (root, "o"), *array = json_get_array (root, "l");
  g_assert_true (text == NULL || strlen (text) == yyjson_get_len (yyjson_obj_get (root, "s")));
  g_assert_true (object == NULL || yyjson_is_obj (object));
  g_assert_true (array == NULL || yyjson_is_arr (array));
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autofree guint8 *copy = g_memdup2 (data, size); /* so that a read beyond is seen */
  for (guint flavour = JSON_STRICT; flavour <= JSON_WILD; flavour++)
    {
      g_autoptr (GError) error = NULL;
      g_auto (Bound) bound = { 0 };
      g_autoptr (yyjson_doc) doc = json_parse (copy != NULL ? copy : data, size, LIMIT_BYTES, (JsonFlavour) flavour,
                                               &error);
      if (doc == NULL)
        {
          g_assert_true (size > LIMIT_BYTES || am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
          continue;
        }
      check_depth (yyjson_doc_get_root (doc), 1); /* a scalar may lie in the deepest array */
      check_getters (yyjson_doc_get_root (doc));
      if (flavour == JSON_STRICT)
        check_writing (doc);
      if (json_bind (yyjson_doc_get_root (doc), fields, G_N_ELEMENTS (fields), &bound, &error))
        check_bound (&bound);
      else
        g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
    }
  return 0;
}
