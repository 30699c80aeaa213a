#include "domain/model_references.h"

#include <string.h>

#include "domain/delivery_names.h"

#define MAX_NAME_BYTES 253
#define MAX_QUOTED_CHARACTERS 80

static void
reference_free (gpointer data)
{
  ModelReference *self = data;
  g_free (self->name);
  g_free (self);
}

static gboolean
is_letter_or_digit (char c)
{
  return g_ascii_islower (c) || g_ascii_isdigit (c);
}

/* DNS-1123: labels of letters, digits and '-', which neither begin nor end with '-'. */
static gboolean
is_subdomain (const char *name)
{
  gsize size = strlen (name);
  if (size == 0 || size > MAX_NAME_BYTES)
    return FALSE;
  for (gsize i = 0; i < size; i++)
    {
      gboolean begins = i == 0 || name[i - 1] == '.', ends = i + 1 == size || name[i + 1] == '.';
      gboolean is_inner = !begins && !ends;
      if (!is_letter_or_digit (name[i]) && !(is_inner && (name[i] == '-' || name[i] == '.')))
        return FALSE;
    }
  return TRUE;
}

/* Fit for a message: valid UTF-8 that is not long. */
static char *
quoted (const char *item)
{
  g_autofree char *valid = g_utf8_make_valid (item, -1);
  return g_utf8_strlen (valid, -1) > MAX_QUOTED_CHARACTERS ? g_utf8_substring (valid, 0, MAX_QUOTED_CHARACTERS)
                                                           : g_steal_pointer (&valid);
}

static gboolean
fail (GError **error, const char *annotation, const char *item, const char *what)
{
  g_autofree char *shown = quoted (item);
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "InvalidModelReference", "annotation %s: \"%s\" %s", annotation,
                  shown, what);
}

/* What is wrong with an item, or NULL. */
static const char *
fault_of (const char *item, GHashTable *names)
{
  if (item[0] == '\0')
    return "is no name: an item of the list is empty";
  if (strpbrk (item, "=/") != NULL)
    return "has '=' or '/': list plain names of models, separated by commas";
  if (!is_subdomain (item))
    return "cannot be the name of a model: use lower-case letters, digits, '-' and '.'";
  if (g_hash_table_contains (names, item))
    return "is named twice: a model's name is also its directory, so each is used once";
  if (g_hash_table_size (names) == MODEL_REFERENCES_MAX)
    return "is one model too many: a workload may use at most 64";
  return NULL;
}

static void
add_reference (GPtrArray *references, GHashTable *names, const char *name, gboolean is_cluster_wide)
{
  ModelReference *reference = g_new0 (ModelReference, 1);
  reference->is_cluster_wide = is_cluster_wide;
  reference->name = g_strdup (name);
  g_ptr_array_add (references, reference);
  g_hash_table_add (names, reference->name);
}

static gboolean
is_blank (const char *text)
{
  return text == NULL || text[strspn (text, " \t\n\v\f\r")] == '\0';
}

static gboolean
add_list (GPtrArray *references, GHashTable *names, const char *list, gboolean is_cluster_wide, GError **error)
{
  if (is_blank (list))
    return TRUE;
  g_auto (GStrv) items = g_strsplit (list, ",", MODEL_REFERENCES_MAX + 2); /* the last one holds all that follow */
  for (gsize i = 0; items[i] != NULL; i++)
    {
      const char *item = g_strstrip (items[i]);
      const char *fault = fault_of (item, names);
      if (fault != NULL)
        return fail (error, is_cluster_wide ? CLUSTER_MODEL_REFERENCE_ANNOTATION : MODEL_REFERENCE_ANNOTATION, item,
                     fault);
      add_reference (references, names, item, is_cluster_wide);
    }
  return TRUE;
}

GPtrArray *
model_references_parse (const char *models, const char *cluster_models, GError **error)
{
  g_autoptr (GPtrArray) references = g_ptr_array_new_with_free_func (reference_free);
  g_autoptr (GHashTable) names = g_hash_table_new (g_str_hash, g_str_equal);
  if (!add_list (references, names, models, FALSE, error)
      || !add_list (references, names, cluster_models, TRUE, error))
    return NULL;
  return g_steal_pointer (&references);
}

gboolean
model_references_equal (const GPtrArray *a, const GPtrArray *b)
{
  if (a->len != b->len)
    return FALSE;
  for (guint i = 0; i < a->len; i++)
    {
      const ModelReference *one = g_ptr_array_index (a, i), *other = g_ptr_array_index (b, i);
      if (one->is_cluster_wide != other->is_cluster_wide || strcmp (one->name, other->name) != 0)
        return FALSE;
    }
  return TRUE;
}
