/* Objects for the tests of this folder, from text with ' for ". */
#pragma once

#include <string.h>

#include "kube/kube_object.h"

static inline KubeObject *
object_of (const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *json = g_strdelimit (g_strdup (text), "'", '"');
  KubeObject *object = kube_object_parse (json, strlen (json), 1 << 20, &error);
  g_assert_no_error (error);
  return object;
}

/* A document as the API server would have it. */
static inline KubeObject *
object_of_doc (yyjson_mut_doc *doc)
{
  g_autoptr (GError) error = NULL;
  gsize size = 0;
  g_autofree char *text = json_write (doc, &size);
  KubeObject *object = kube_object_parse (text, size, 1 << 20, &error);
  g_assert_no_error (error);
  return object;
}

/* One with a member twice is like nothing, not even itself; the API server has none. */
static inline gboolean
object_has_doubles (const KubeObject *object)
{
  g_autoptr (yyjson_mut_doc) one = kube_object_edit (object), other = kube_object_edit (object);
  return !yyjson_mut_equals (yyjson_mut_doc_get_root (one), yyjson_mut_doc_get_root (other));
}
