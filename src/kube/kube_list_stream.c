#include "kube/kube_list_stream.h"

#include <string.h>

#define MAX_ITEM_BYTES (16u * 1024 * 1024)
#define ITEMS_KEY "\"items\""
#define ITEM_DEPTH 2 /* brackets around an item: the list's and the array's */

void
kube_list_stream_init (KubeListStream *self, KubeEach each, gpointer data)
{
  *self = (KubeListStream){ .outside = g_byte_array_new (), .item = g_byte_array_new (), .each = each, .data = data };
}

void
kube_list_stream_clear (KubeListStream *self)
{
  g_clear_pointer (&self->outside, g_byte_array_unref);
  g_clear_pointer (&self->item, g_byte_array_unref);
}

static gboolean
is_space (char c)
{
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static gboolean
keep (GByteArray *array, const char *text, gsize size, GError **error)
{
  if (size > MAX_ITEM_BYTES - array->len)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL, "list: an object of more than %u bytes",
                    MAX_ITEM_BYTES);
  g_byte_array_append (array, (const guint8 *) text, (guint) size);
  return TRUE;
}

static gboolean
fail_list (GError **error, const GError *problem)
{
  return am_fail (error, AM_ERROR_DATA_LOSS, NULL, "list: an answer that is no list of objects%s%s",
                  problem != NULL ? ": " : "", problem != NULL ? problem->message : "");
}

/* Whether the array whose bracket came last is the list's items: what is before it ends in that key, which no text value
 * can look like, since a value does not follow a bracket or a comma. */
static gboolean
begins_items (const KubeListStream *self)
{
  const char *text = (const char *) self->outside->data;
  gsize size = self->outside->len - 1;
  while (size > 0 && (is_space (text[size - 1]) || text[size - 1] == ':'))
    size--;
  gsize key_size = strlen (ITEMS_KEY);
  if (size < key_size || strncmp (text + size - key_size, ITEMS_KEY, key_size) != 0)
    return FALSE;
  size -= key_size;
  while (size > 0 && is_space (text[size - 1]))
    size--;
  return size > 0 && (text[size - 1] == '{' || text[size - 1] == ',');
}

static gboolean
take_item (KubeListStream *self, const char *text, gsize size, GError **error)
{
  g_autoptr (GError) problem = NULL;
  g_autoptr (KubeObject) object = kube_object_parse_shallow (text, size, &problem);
  return object != NULL ? self->each (object, self->data, error) : fail_list (error, problem);
}

/* `text` ends the item that has begun: most often it is all of it. */
static gboolean
end_item (KubeListStream *self, const char *text, gsize size, GError **error)
{
  if (self->item->len == 0)
    return take_item (self, text, size, error);
  if (!keep (self->item, text, size, error))
    return FALSE;
  gboolean taken = take_item (self, (const char *) self->item->data, self->item->len, error);
  g_byte_array_set_size (self->item, 0);
  return taken;
}

/* Reads on within a text; what is behind it, or `end`. */
static const char *
skip_string (KubeListStream *self, const char *at, const char *end)
{
  for (; at < end; at++)
    if (self->is_escaped)
      self->is_escaped = FALSE;
    else if (*at == '\\')
      self->is_escaped = TRUE;
    else if (*at == '"')
      {
        self->in_string = FALSE;
        return at + 1;
      }
  return end;
}

static gboolean
is_between_items (const KubeListStream *self)
{
  return self->in_items && self->depth == ITEM_DEPTH;
}

/* One character between items; moves `begin`, where what is being read began. */
static gboolean
take_between (KubeListStream *self, const char *at, const char **begin, GError **error)
{
  *begin = at;
  if (*at == '{')
    self->depth++;
  else if (*at == ']')
    {
      self->in_items = FALSE;
      self->depth--;
    }
  else if (*at != ',' && !is_space (*at))
    return fail_list (error, NULL);
  return TRUE;
}

/* A bracket outside of texts, in an item or outside of all. */
static gboolean
take_bracket (KubeListStream *self, const char *at, const char **begin, GError **error)
{
  const char *behind = at + 1;
  gboolean opens = *at == '{' || *at == '[';
  if (*at == '[' && self->depth == 1)
    {
      if (!keep (self->outside, *begin, (gsize) (behind - *begin), error))
        return FALSE;
      *begin = behind;
      self->in_items = begins_items (self);
    }
  if (!opens && self->depth == 0)
    return fail_list (error, NULL);
  self->depth += opens ? 1 : -1u;
  if (self->depth > ITEM_DEPTH + JSON_MAX_DEPTH)
    return am_fail (error, AM_ERROR_DATA_LOSS, NULL, "list: nested deeper than %d levels", JSON_MAX_DEPTH);
  if (opens || !is_between_items (self))
    return TRUE;
  const char *item = *begin;
  *begin = behind;
  return end_item (self, item, (gsize) (behind - item), error);
}

gboolean
kube_list_stream_feed (KubeListStream *self, gconstpointer data, gsize size, GError **error)
{
  const char *at = data, *begin = at, *end = at + size;
  while (at < end)
    {
      char c = *at;
      gboolean taken = TRUE;
      if (self->in_string)
        {
          at = skip_string (self, at, end);
          continue;
        }
      if (is_between_items (self))
        taken = take_between (self, at, &begin, error);
      else if (c == '"')
        self->in_string = TRUE;
      else if (c == '{' || c == '[' || c == '}' || c == ']')
        taken = take_bracket (self, at, &begin, error);
      if (!taken)
        return FALSE;
      at++;
    }
  if (is_between_items (self))
    return TRUE;
  return keep (self->in_items ? self->item : self->outside, begin, (gsize) (end - begin), error);
}

KubeObject *
kube_list_stream_end (KubeListStream *self, GError **error)
{
  g_autoptr (GError) problem = NULL;
  KubeObject *list = kube_object_parse (self->outside->data, self->outside->len, MAX_ITEM_BYTES, &problem);
  if (list == NULL)
    fail_list (error, problem);
  return list;
}
