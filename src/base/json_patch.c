#include "base/json_patch.h"

#include <string.h>

typedef struct {
  yyjson_mut_doc *doc;
  yyjson_mut_val *operations;
  GString *path; /* of what is compared: a JSON pointer (RFC 6901) */
} Comparison;

static void compare (Comparison *self, yyjson_mut_val *before, yyjson_mut_val *after);

/* `value` NULL: a removal. */
static void
add_operation (Comparison *self, const char *name, yyjson_mut_val *value)
{
  yyjson_mut_val *operation = yyjson_mut_arr_add_obj (self->doc, self->operations);
  yyjson_mut_obj_add_str (self->doc, operation, "op", name);
  yyjson_mut_obj_add_strncpy (self->doc, operation, "path", self->path->str, self->path->len);
  if (value != NULL)
    yyjson_mut_obj_add_val (self->doc, operation, "value", yyjson_mut_val_mut_copy (self->doc, value));
}

/* Go down by one member or item and, with `leave`, up again to where it was. */
static gsize
enter (Comparison *self, yyjson_mut_val *key)
{
  gsize length = self->path->len;
  const char *text = yyjson_mut_get_str (key);
  g_string_append_c (self->path, '/');
  for (gsize i = 0; i < yyjson_mut_get_len (key); i++)
    if (text[i] == '~' || text[i] == '/')
      g_string_append (self->path, text[i] == '~' ? "~0" : "~1");
    else
      g_string_append_c (self->path, text[i]);
  return length;
}

static gsize
enter_item (Comparison *self, guint index)
{
  gsize length = self->path->len;
  g_string_append_printf (self->path, "/%u", index);
  return length;
}

static void
leave (Comparison *self, gsize length)
{
  g_string_truncate (self->path, length);
}

static yyjson_mut_val *
member_of (yyjson_mut_obj_iter *iter, yyjson_mut_val *key)
{
  return yyjson_mut_obj_iter_getn (iter, yyjson_mut_get_str (key), yyjson_mut_get_len (key));
}

static void
compare_objects (Comparison *self, yyjson_mut_val *before, yyjson_mut_val *after)
{
  yyjson_mut_obj_iter there = yyjson_mut_obj_iter_with (before), others = yyjson_mut_obj_iter_with (after);
  size_t index, n;
  yyjson_mut_val *key, *value;
  yyjson_mut_obj_foreach (before, index, n, key, value)
  {
    yyjson_mut_val *other = member_of (&others, key);
    gsize length = enter (self, key);
    if (other != NULL)
      compare (self, value, other);
    else
      add_operation (self, "remove", NULL);
    leave (self, length);
  }
  yyjson_mut_obj_foreach (after, index, n, key, value)
  {
    if (member_of (&there, key) != NULL)
      continue;
    gsize length = enter (self, key);
    add_operation (self, "add", value);
    leave (self, length);
  }
}

static GPtrArray *
items_of (yyjson_mut_val *list)
{
  GPtrArray *items = g_ptr_array_sized_new ((guint) yyjson_mut_arr_size (list));
  size_t index, n;
  yyjson_mut_val *item;
  yyjson_mut_arr_foreach (list, index, n, item) g_ptr_array_add (items, item);
  return items;
}

/* What is alike at both ends stays; in the middle, item by item, and then those that are too many or missing. */
static void
compare_lists (Comparison *self, yyjson_mut_val *before, yyjson_mut_val *after)
{
  g_autoptr (GPtrArray) old = items_of (before), new = items_of (after);
  guint first = 0, n_old = old->len, n_new = new->len;
  while (first < MIN (n_old, n_new) && yyjson_mut_equals (old->pdata[first], new->pdata[first]))
    first++;
  while (MIN (n_old, n_new) > first && yyjson_mut_equals (old->pdata[n_old - 1], new->pdata[n_new - 1]))
    {
      n_old--;
      n_new--;
    }
  for (guint i = first; i < MAX (n_old, n_new); i++)
    {
      gsize length = enter_item (self, i < n_new ? i : n_new); /* the later ones move up when one is removed */
      if (i >= n_new)
        add_operation (self, "remove", NULL);
      else if (i >= n_old)
        add_operation (self, "add", new->pdata[i]);
      else
        compare (self, old->pdata[i], new->pdata[i]);
      leave (self, length);
    }
}

static void
compare (Comparison *self, yyjson_mut_val *before, yyjson_mut_val *after)
{
  if (yyjson_mut_is_obj (before) && yyjson_mut_is_obj (after))
    compare_objects (self, before, after);
  else if (yyjson_mut_is_arr (before) && yyjson_mut_is_arr (after))
    compare_lists (self, before, after);
  else if (!yyjson_mut_equals (before, after))
    add_operation (self, "replace", after);
}

yyjson_mut_doc *
json_patch_between (yyjson_mut_val *before, yyjson_mut_val *after)
{
  yyjson_mut_doc *doc = yyjson_mut_doc_new (NULL);
  g_autoptr (GString) path = g_string_new (NULL);
  Comparison self = { doc, yyjson_mut_arr (doc), path };
  yyjson_mut_doc_set_root (doc, self.operations);
  compare (&self, before, after);
  return doc;
}
