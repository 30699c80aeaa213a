#include "domain/model_references.h"

#include <string.h>

/* "a b +c": names in order, '+' for ClusterModels. */
static char *
shown (const GPtrArray *references)
{
  GString *line = g_string_new (NULL);
  for (guint i = 0; i < references->len; i++)
    {
      const ModelReference *reference = g_ptr_array_index (references, i);
      g_string_append_printf (line, "%s%s%s", i > 0 ? " " : "", reference->is_cluster_wide ? "+" : "",
                              reference->name);
    }
  return g_string_free (line, FALSE);
}

#define SIXTY_THREE "abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz0"
#define LONGEST                                   \
  SIXTY_THREE "." SIXTY_THREE "." SIXTY_THREE "." \
              "abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxy"

static void
test_good (void)
{
  static const struct {
    const char *models, *cluster_models, *line;
  } rows[] = {
    { NULL, NULL, "" },
    { "", " \t\n", "" },
    { "minilm", NULL, "minilm" },
    { NULL, "minilm", "+minilm" },
    { "b, a ,c", "z,y", "b a c +z +y" },
    { "", "z", "+z" },
    { "\n a\t,b\r\n", "", "a b" },
    { "a.b-c.0", "0", "a.b-c.0 +0" },
    { LONGEST, NULL, LONGEST },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GPtrArray) references = model_references_parse (rows[i].models, rows[i].cluster_models, &error);
      g_assert_no_error (error);
      g_autofree char *line = shown (references);
      g_assert_cmpstr (line, ==, rows[i].line);
    }
}

static void
test_bad (void)
{
  static const struct {
    const char *models, *cluster_models, *message;
  } rows[] = {
    { "a,,b", NULL, "annotation ai.deckhouse.io/model: \"\" is no name" },
    { "a,", NULL, "annotation ai.deckhouse.io/model: \"\" is no name" },
    { ",", NULL, "is no name" },
    { NULL, ", ,a", "annotation ai.deckhouse.io/clustermodel: \"\" is no name" },
    { "alias=a", NULL, "\"alias=a\" has '=' or '/'" },
    { "ns/a", NULL, "\"ns/a\" has '=' or '/'" },
    { "Upper", NULL, "\"Upper\" cannot be the name" },
    { "a_b", NULL, "\"a_b\" cannot be" },
    { "a b", NULL, "\"a b\" cannot be" },
    { "-a", NULL, "\"-a\" cannot be" },
    { "a-", NULL, "\"a-\" cannot be" },
    { "a-.b", NULL, "\"a-.b\" cannot be" },
    { "a.-b", NULL, "\"a.-b\" cannot be" },
    { "a..b", NULL, "\"a..b\" cannot be" },
    { ".", NULL, "\".\" cannot be" },
    { "..", NULL, "\"..\" cannot be" },
    { ".a", NULL, "\".a\" cannot be" },
    { "a.", NULL, "\"a.\" cannot be" },
    { "m\xc3\xb6"
      "del",
      NULL,
      "\"m\xc3\xb6"
      "del\" cannot be" },
    { "\xff", NULL, "\"\xef\xbf\xbd\" cannot be" },
    { LONGEST "z", NULL, "cannot be the name" },
    { "a,b,a", NULL, "annotation ai.deckhouse.io/model: \"a\" is named twice" },
    { NULL, "a, a", "annotation ai.deckhouse.io/clustermodel: \"a\" is named twice" },
    { "a,b", "c,b", "annotation ai.deckhouse.io/clustermodel: \"b\" is named twice" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_assert_null (model_references_parse (rows[i].models, rows[i].cluster_models, &error));
      g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
      g_assert_true (am_error_has_reason (error, "InvalidModelReference"));
      g_test_message ("%s", error->message);
      g_assert_nonnull (strstr (error->message, rows[i].message));
      g_assert_cmpuint (strlen (error->message), <, 400);
    }
}

/* `n` names in one list, the rest in the other. */
static gboolean
parses (guint n_models, guint n_cluster_models)
{
  g_autoptr (GString) models = g_string_new (NULL), cluster_models = g_string_new (NULL);
  for (guint i = 0; i < n_models; i++)
    g_string_append_printf (models, "%sm%u", i > 0 ? "," : "", i);
  for (guint i = 0; i < n_cluster_models; i++)
    g_string_append_printf (cluster_models, "%sc%u", i > 0 ? "," : "", i);
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) references = model_references_parse (models->str, cluster_models->str, &error);
  g_assert_true (references != NULL || strstr (error->message, "too many") != NULL);
  g_assert_true (references == NULL || references->len == n_models + n_cluster_models);
  return references != NULL;
}

static void
test_count (void)
{
  g_assert_cmpuint (MODEL_REFERENCES_MAX, ==, 64);
  g_assert_true (parses (64, 0));
  g_assert_true (parses (32, 32));
  g_assert_false (parses (65, 0));
  g_assert_false (parses (64, 1));
  g_assert_false (parses (0, 5000));
}

static void
test_equal (void)
{
  static const struct {
    const char *models, *cluster_models;
    gboolean is_equal; /* to "a,b" and "c" */
  } rows[] = {
    { "a,b", "c", TRUE }, { " a , b", "c ", TRUE }, { "b,a", "c", FALSE }, { "a,b,c", "", FALSE },
    { "a,b", "", FALSE }, { "a", "b,c", FALSE },    { "", "", FALSE },     { "a,b", "d", FALSE },
  };
  g_autoptr (GPtrArray) all = model_references_parse ("a,b", "c", NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GPtrArray) references = model_references_parse (rows[i].models, rows[i].cluster_models, NULL);
      g_assert_cmpint (model_references_equal (all, references), ==, rows[i].is_equal);
      g_assert_cmpint (model_references_equal (references, all), ==, rows[i].is_equal);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/model-references/good", test_good);
  g_test_add_func ("/model-references/bad", test_bad);
  g_test_add_func ("/model-references/count", test_count);
  g_test_add_func ("/model-references/equal", test_equal);
  return g_test_run ();
}
