/* Any two texts as the annotations (the first line one, the rest the other): refused with a name's fault, or names that are
 * directories, each once, that give the same when they are written and read again. */
#include "domain/model_references.h"

#include <string.h>

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

static void
check_names (const GPtrArray *references)
{
  GString *lists[] = { g_string_new (NULL), g_string_new (NULL) };
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; i < references->len; i++)
    {
      const ModelReference *reference = g_ptr_array_index (references, i);
      g_assert_true (strchr (reference->name, '/') == NULL && reference->name[0] != '.'
                     && reference->name[0] != '\0');
      g_assert_true (g_hash_table_add (seen, reference->name));
      GString *list = lists[reference->is_cluster_wide];
      g_string_append_printf (list, "%s%s", list->len > 0 ? "," : "", reference->name);
    }
  g_autofree char *models = g_string_free (lists[FALSE], FALSE), *cluster_models = g_string_free (lists[TRUE], FALSE);
  g_autoptr (GPtrArray) again = model_references_parse (models, cluster_models, NULL);
  g_assert_true (again != NULL && model_references_equal (references, again));
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autofree char *text = g_strndup ((const char *) data, size);
  char *rest = strchr (text, '\n');
  if (rest != NULL)
    *rest++ = '\0';
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) references = model_references_parse (text, rest, &error);
  if (references == NULL)
    g_assert_true (am_error_has_reason (error, "InvalidModelReference")
                   && g_utf8_validate (error->message, -1, NULL));
  else
    check_names (references);
  return 0;
}
