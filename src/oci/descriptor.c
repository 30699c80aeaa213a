#include "oci/descriptor.h"

#include <string.h>

/* Above so many members of one object, duplicates are looked for with a table. */
#define FEW_MEMBERS 16

typedef struct {
  char *media_type, *digest, *artifact_type, *data;
  guint64 size_bytes;
  GPtrArray *urls;
} Wire;

static const JsonField wire_fields[] = {
  JSON_FIELD (Wire, media_type, "mediaType", JSON_STRING, TRUE),
  JSON_FIELD (Wire, digest, "digest", JSON_STRING, TRUE),
  JSON_FIELD (Wire, size_bytes, "size", JSON_UINT64, TRUE),
  JSON_FIELD (Wire, artifact_type, "artifactType", JSON_STRING, FALSE),
  JSON_FIELD (Wire, data, "data", JSON_STRING, FALSE),
  JSON_FIELD (Wire, urls, "urls", JSON_STRINGS, FALSE),
};

static const JsonField platform_fields[] = {
  JSON_FIELD (Descriptor, os, "os", JSON_STRING, FALSE),
  JSON_FIELD (Descriptor, architecture, "architecture", JSON_STRING, FALSE),
};

static void
wire_clear (Wire *self)
{
  json_clear (wire_fields, G_N_ELEMENTS (wire_fields), self);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Wire, wire_clear)

static void
annotation_free (gpointer annotation)
{
  Annotation *self = annotation;
  g_free (self->key);
  g_free (self->value);
  g_free (self);
}

static void
annotations_add (GPtrArray **annotations, const char *key, const char *value)
{
  if (*annotations == NULL)
    *annotations = g_ptr_array_new_with_free_func (annotation_free);
  Annotation *annotation = g_new (Annotation, 1);
  annotation->key = g_strdup (key);
  annotation->value = g_strdup (value);
  g_ptr_array_add (*annotations, annotation);
}

Descriptor *
descriptor_new (const char *media_type, const Digest *digest, guint64 size_bytes)
{
  Descriptor *self = g_new0 (Descriptor, 1);
  self->media_type = g_strdup (media_type);
  self->digest = *digest;
  self->size_bytes = size_bytes;
  return self;
}

void
descriptor_free (Descriptor *self)
{
  if (self == NULL)
    return;
  g_free (self->media_type);
  g_free (self->artifact_type);
  g_clear_pointer (&self->urls, g_ptr_array_unref);
  g_clear_pointer (&self->annotations, g_ptr_array_unref);
  g_clear_pointer (&self->data, g_bytes_unref);
  g_free (self->os);
  g_free (self->architecture);
  g_free (self);
}

static gboolean
key_is_new (yyjson_val *object, yyjson_val *key, gsize n_before)
{
  yyjson_obj_iter iter = yyjson_obj_iter_with (object);
  for (gsize i = 0; i < n_before; i++)
    if (yyjson_equals_strn (yyjson_obj_iter_next (&iter), yyjson_get_str (key), yyjson_get_len (key)))
      return FALSE;
  return TRUE;
}

gboolean
json_keys_are_unique (yyjson_val *object, GError **error)
{
  gboolean few = yyjson_obj_size (object) <= FEW_MEMBERS;
  g_autoptr (GHashTable) seen = few ? NULL : g_hash_table_new (g_str_hash, g_str_equal);
  yyjson_obj_iter iter = yyjson_obj_iter_with (object);
  gsize index = 0;
  for (yyjson_val *key = yyjson_obj_iter_next (&iter); key != NULL; key = yyjson_obj_iter_next (&iter))
    {
      const char *text = yyjson_get_str (key);
      gboolean is_new = few ? key_is_new (object, key, index) : g_hash_table_add (seen, (gpointer) text);
      if (!is_new || strlen (text) != yyjson_get_len (key))
        return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "MANIFEST_INVALID",
                        is_new ? "the member \"%.64s\" has a NUL in its name" : "the member \"%.64s\" occurs twice",
                        text);
      index++;
    }
  return TRUE;
}

gboolean
annotations_parse (yyjson_val *object, GPtrArray **out_annotations, GError **error)
{
  if (object == NULL || yyjson_is_null (object))
    return TRUE;
  if (!yyjson_is_obj (object))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "MANIFEST_INVALID",
                    "\"annotations\" must be an object of strings");
  if (!json_keys_are_unique (object, error))
    return FALSE;
  g_autoptr (GPtrArray) annotations = NULL;
  yyjson_obj_iter iter = yyjson_obj_iter_with (object);
  for (yyjson_val *key = yyjson_obj_iter_next (&iter); key != NULL; key = yyjson_obj_iter_next (&iter))
    {
      yyjson_val *value = yyjson_obj_iter_get_val (key);
      if (!yyjson_is_str (value) || strlen (yyjson_get_str (value)) != yyjson_get_len (value))
        return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "MANIFEST_INVALID",
                        "the annotation \"%.64s\" must be a string", yyjson_get_str (key));
      annotations_add (&annotations, yyjson_get_str (key), yyjson_get_str (value));
    }
  *out_annotations = g_steal_pointer (&annotations);
  return TRUE;
}

yyjson_mut_val *
annotations_write (yyjson_mut_doc *doc, GPtrArray *annotations)
{
  if (annotations == NULL)
    return NULL;
  yyjson_mut_val *object = yyjson_mut_obj (doc);
  for (guint i = 0; i < annotations->len; i++)
    {
      const Annotation *annotation = g_ptr_array_index (annotations, i);
      yyjson_mut_obj_add (object, yyjson_mut_strcpy (doc, annotation->key),
                          yyjson_mut_strcpy (doc, annotation->value));
    }
  return object;
}

const char *
annotations_get (GPtrArray *annotations, const char *key)
{
  for (guint i = 0; annotations != NULL && i < annotations->len; i++)
    {
      const Annotation *annotation = g_ptr_array_index (annotations, i);
      if (strcmp (annotation->key, key) == 0)
        return annotation->value;
    }
  return NULL;
}

const char *
descriptor_annotation (const Descriptor *self, const char *key)
{
  return annotations_get (self->annotations, key);
}

void
descriptor_annotate (Descriptor *self, const char *key, const char *value)
{
  annotations_add (&self->annotations, key, value);
}

/* Inline content must be what the descriptor says (image-spec 1.1), or it could pass for something else. */
static gboolean
take_data (Descriptor *self, const char *text, GError **error)
{
  gsize length = strlen (text);
  gsize padding = g_str_has_suffix (text, "==") ? 2 : g_str_has_suffix (text, "=") ? 1 : 0;
  gboolean plain = length % 4 == 0
                   && strspn (text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
                        == length - padding;
  gsize size = 0;
  g_autofree guchar *bytes = plain ? g_base64_decode (text, &size) : NULL;
  Digest actual;
  if (plain)
    digest_of (self->digest.algorithm, bytes, size, &actual);
  if (!plain || size != self->size_bytes || !digest_equal (&actual, &self->digest))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "MANIFEST_INVALID",
                    "inline \"data\" is not the content that digest and size tell");
  self->data = g_bytes_new_take (g_steal_pointer (&bytes), size);
  return TRUE;
}

/* type "/" subtype of the characters RFC 6838 allows, in practice; parameters are no part of it. */
static gboolean
media_type_is_plain (const char *text)
{
  const char *slash = strchr (text, '/');
  gsize length = strlen (text);
  return slash != NULL && slash != text && slash[1] != '\0' && length <= 255 && strchr (slash + 1, '/') == NULL
         && strspn (text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$&-^_.+/") == length;
}

static gboolean
take_wire (Descriptor *self, Wire *wire, GError **error)
{
  if (!media_type_is_plain (wire->media_type))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "MANIFEST_INVALID", "\"mediaType\" is no media type");
  if (!digest_parse (wire->digest, &self->digest, error))
    return FALSE;
  if (wire->size_bytes > DESCRIPTOR_MAX_SIZE_BYTES)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "MANIFEST_INVALID", "\"size\" is out of range");
  self->size_bytes = wire->size_bytes;
  self->media_type = g_steal_pointer (&wire->media_type);
  self->artifact_type = g_steal_pointer (&wire->artifact_type);
  self->urls = g_steal_pointer (&wire->urls);
  return wire->data == NULL || take_data (self, wire->data, error);
}

static gboolean
fail_as_manifest (GError **error, GError *cause)
{
  gboolean failed = am_fail (error, AM_ERROR_INVALID_ARGUMENT, "MANIFEST_INVALID", "%s", cause->message);
  g_error_free (cause);
  return failed;
}

Descriptor *
descriptor_parse (yyjson_val *object, GError **error)
{
  g_autoptr (Descriptor) self = g_new0 (Descriptor, 1);
  g_auto (Wire) wire = { 0 };
  GError *cause = NULL;
  if (!json_bind (object, wire_fields, G_N_ELEMENTS (wire_fields), &wire, &cause))
    {
      fail_as_manifest (error, cause);
      return NULL;
    }
  if (!json_keys_are_unique (object, error) || !take_wire (self, &wire, error)
      || !annotations_parse (yyjson_obj_get (object, "annotations"), &self->annotations, error))
    return NULL;
  yyjson_val *platform = yyjson_obj_get (object, "platform");
  if (platform != NULL && !yyjson_is_null (platform)
      && !json_bind (platform, platform_fields, G_N_ELEMENTS (platform_fields), self, &cause))
    {
      fail_as_manifest (error, cause);
      return NULL;
    }
  return g_steal_pointer (&self);
}

static void
add_string (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key, const char *value)
{
  if (value != NULL)
    yyjson_mut_obj_add_strcpy (doc, object, key, value);
}

static yyjson_mut_val *
platform_write (yyjson_mut_doc *doc, const Descriptor *self)
{
  yyjson_mut_val *platform = yyjson_mut_obj (doc);
  add_string (doc, platform, "architecture", self->architecture);
  add_string (doc, platform, "os", self->os);
  return platform;
}

yyjson_mut_val *
descriptor_write (yyjson_mut_doc *doc, const Descriptor *self)
{
  char digest[DIGEST_STRING_SIZE];
  yyjson_mut_val *object = yyjson_mut_obj (doc);
  if (self->annotations != NULL)
    yyjson_mut_obj_add_val (doc, object, "annotations", annotations_write (doc, self->annotations));
  add_string (doc, object, "artifactType", self->artifact_type);
  if (self->data != NULL)
    {
      gsize size = 0;
      const guint8 *bytes = g_bytes_get_data (self->data, &size);
      g_autofree char *text = g_base64_encode (bytes, size);
      yyjson_mut_obj_add_strcpy (doc, object, "data", text);
    }
  yyjson_mut_obj_add_strcpy (doc, object, "digest", digest_format (&self->digest, digest));
  yyjson_mut_obj_add_strcpy (doc, object, "mediaType", self->media_type);
  if (self->os != NULL || self->architecture != NULL)
    yyjson_mut_obj_add_val (doc, object, "platform", platform_write (doc, self));
  yyjson_mut_obj_add_uint (doc, object, "size", self->size_bytes);
  if (self->urls != NULL)
    {
      yyjson_mut_val *urls = yyjson_mut_obj_add_arr (doc, object, "urls");
      for (guint i = 0; i < self->urls->len; i++)
        yyjson_mut_arr_add_strcpy (doc, urls, g_ptr_array_index (self->urls, i));
    }
  return object;
}
