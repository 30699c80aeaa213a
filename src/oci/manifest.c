#include "oci/manifest.h"

#include <string.h>

static const struct {
  const char *media_type;
  ManifestKind kind;
  gboolean needs_own_field; /* without a mediaType member it would be read back as OCI's */
} types[] = {
  { OCI_MANIFEST, MANIFEST_IMAGE, FALSE },
  { OCI_INDEX, MANIFEST_INDEX, FALSE },
  { DOCKER_MANIFEST, MANIFEST_IMAGE, TRUE },
  { DOCKER_MANIFEST_LIST, MANIFEST_INDEX, TRUE },
};

static const char *const nondistributable_types[] = {
  "application/vnd.oci.image.layer.nondistributable.v1.tar",
  "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
  "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
  "application/vnd.docker.image.rootfs.foreign.diff.tar",
  "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
};

typedef struct {
  guint64 schema_version;
  char *media_type, *artifact_type;
} Head;

static const JsonField head_fields[] = {
  JSON_FIELD (Head, schema_version, "schemaVersion", JSON_UINT64, TRUE),
  JSON_FIELD (Head, media_type, "mediaType", JSON_STRING, FALSE),
  JSON_FIELD (Head, artifact_type, "artifactType", JSON_STRING, FALSE),
};

static void
head_clear (Head *self)
{
  json_clear (head_fields, G_N_ELEMENTS (head_fields), self);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Head, head_clear)

static void
free_descriptor (gpointer descriptor)
{
  descriptor_free (descriptor);
}

void
manifest_free (Manifest *self)
{
  if (self == NULL)
    return;
  g_free (self->media_type);
  g_free (self->artifact_type);
  descriptor_free (self->config);
  g_clear_pointer (&self->layers, g_ptr_array_unref);
  g_clear_pointer (&self->manifests, g_ptr_array_unref);
  descriptor_free (self->subject);
  g_clear_pointer (&self->annotations, g_ptr_array_unref);
  g_free (self);
}

static int
type_row (const char *media_type)
{
  for (guint i = 0; media_type != NULL && i < G_N_ELEMENTS (types); i++)
    if (g_ascii_strcasecmp (types[i].media_type, media_type) == 0)
      return (int) i;
  return -1;
}

gboolean
manifest_type_is_known (const char *media_type)
{
  return type_row (media_type) >= 0;
}

static gboolean
invalid (GError **error, const char *sentence)
{
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "MANIFEST_INVALID", "%s", sentence);
}

static gboolean
is_present (yyjson_val *value)
{
  return value != NULL && !yyjson_is_null (value);
}

/* Settles which of the four types the document is from what it says, what it was sent as and its shape. */
static gboolean
settle_type (Manifest *self, yyjson_val *root, const Head *head, const char *content_type, GError **error)
{
  g_autofree char *sent = content_type == NULL ? NULL : g_strndup (content_type, strcspn (content_type, ";"));
  if (sent != NULL)
    g_strstrip (sent);
  const char *shape = yyjson_obj_get (root, "manifests") != NULL ? OCI_INDEX : OCI_MANIFEST;
  const char *type = head->media_type != NULL ? head->media_type : sent != NULL && *sent != '\0' ? sent : shape;
  int row = type_row (type);
  if (row < 0)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "MANIFEST_INVALID",
                    "the manifest's type \"%.120s\" is not supported: an OCI or Docker v2 manifest or index is "
                    "expected",
                    type);
  if (sent != NULL && *sent != '\0' && g_ascii_strcasecmp (sent, type) != 0)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "MANIFEST_INVALID",
                    "the manifest says mediaType \"%.120s\" but was sent as \"%.120s\"", type, sent);
  if (types[row].needs_own_field && head->media_type == NULL)
    return invalid (error, "a Docker manifest must have the member \"mediaType\"");
  self->kind = types[row].kind;
  self->media_type = g_strdup (types[row].media_type);
  return TRUE;
}

/* An image has config and layers, an index has manifests, none has members of the other (CVE-2021-41190). */
static gboolean
check_shape (const Manifest *self, yyjson_val *root, GError **error)
{
  gboolean is_index = self->kind == MANIFEST_INDEX;
  if (is_index && (is_present (yyjson_obj_get (root, "layers")) || is_present (yyjson_obj_get (root, "config"))))
    return invalid (error, "an index must not have \"config\" or \"layers\"");
  if (!is_index && is_present (yyjson_obj_get (root, "manifests")))
    return invalid (error, "an image manifest must not have \"manifests\"");
  if (is_present (yyjson_obj_get (root, "fsLayers")) || is_present (yyjson_obj_get (root, "blobs")))
    return invalid (error, "Docker schema 1 and ORAS artifact manifests are not supported");
  if (is_index && yyjson_obj_get (root, "manifests") == NULL)
    return invalid (error, "an index must have \"manifests\"");
  if (!is_index && !is_present (yyjson_obj_get (root, "config")))
    return invalid (error, "an image manifest must have a \"config\"");
  return TRUE;
}

static Descriptor *
parse_member (yyjson_val *root, const char *name, GError **error)
{
  Descriptor *descriptor = descriptor_parse (yyjson_obj_get (root, name), error);
  if (descriptor == NULL)
    g_prefix_error (error, "\"%s\": ", name);
  return descriptor;
}

static gboolean
parse_array (yyjson_val *root, const char *name, GPtrArray *out, GError **error)
{
  yyjson_val *array = yyjson_obj_get (root, name);
  if (!is_present (array))
    return TRUE;
  if (!yyjson_is_arr (array))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "MANIFEST_INVALID", "\"%s\" must be an array", name);
  if (yyjson_arr_size (array) > MANIFEST_MAX_DESCRIPTORS)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "MANIFEST_INVALID", "\"%s\" has more than %u entries", name,
                    MANIFEST_MAX_DESCRIPTORS);
  yyjson_arr_iter iter = yyjson_arr_iter_with (array);
  for (yyjson_val *item = yyjson_arr_iter_next (&iter); item != NULL; item = yyjson_arr_iter_next (&iter))
    {
      Descriptor *descriptor = descriptor_parse (item, error);
      if (descriptor == NULL)
        {
          g_prefix_error (error, "\"%s\" entry %u: ", name, out->len);
          return FALSE;
        }
      g_ptr_array_add (out, descriptor);
    }
  return TRUE;
}

static gboolean
parse_body (Manifest *self, yyjson_val *root, GError **error)
{
  if (self->kind == MANIFEST_IMAGE)
    {
      self->config = parse_member (root, "config", error);
      if (self->config == NULL || !parse_array (root, "layers", self->layers, error))
        return FALSE;
    }
  else if (!parse_array (root, "manifests", self->manifests, error))
    return FALSE;
  if (is_present (yyjson_obj_get (root, "subject")))
    {
      self->subject = parse_member (root, "subject", error);
      if (self->subject == NULL)
        return FALSE;
    }
  return annotations_parse (yyjson_obj_get (root, "annotations"), &self->annotations, error);
}

static gboolean
parse_head (yyjson_val *root, Head *head, GError **error)
{
  g_autoptr (GError) cause = NULL;
  if (!json_bind (root, head_fields, G_N_ELEMENTS (head_fields), head, &cause))
    return invalid (error, cause->message);
  if (head->schema_version != 2)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "MANIFEST_INVALID",
                    "schemaVersion is %" G_GUINT64_FORMAT "; only 2 is supported", head->schema_version);
  return json_keys_are_unique (root, error);
}

Manifest *
manifest_parse (GBytes *bytes, const char *content_type, GError **error)
{
  gsize size = 0;
  gconstpointer data = g_bytes_get_data (bytes, &size);
  if (size > MANIFEST_MAX_BYTES)
    return am_fail_null (error, AM_ERROR_RESOURCE_EXHAUSTED, "SIZE_INVALID",
                         "the manifest has %" G_GSIZE_FORMAT " bytes; the limit is %u", size, MANIFEST_MAX_BYTES);
  g_autoptr (GError) cause = NULL;
  g_autoptr (yyjson_doc) doc = json_parse (data, size, MANIFEST_MAX_BYTES, JSON_STRICT, &cause);
  if (doc == NULL)
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, "MANIFEST_INVALID", "the manifest is no JSON: %s",
                         cause->message);
  yyjson_val *root = yyjson_doc_get_root (doc);
  g_auto (Head) head = { 0 };
  g_autoptr (Manifest) self = g_new0 (Manifest, 1);
  self->layers = g_ptr_array_new_with_free_func (free_descriptor);
  self->manifests = g_ptr_array_new_with_free_func (free_descriptor);
  if (!parse_head (root, &head, error) || !settle_type (self, root, &head, content_type, error)
      || !check_shape (self, root, error) || !parse_body (self, root, error))
    return NULL;
  self->artifact_type = g_steal_pointer (&head.artifact_type);
  return g_steal_pointer (&self);
}

static gboolean
is_foreign (const Descriptor *descriptor)
{
  if (descriptor->urls != NULL && descriptor->urls->len > 0)
    return TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (nondistributable_types); i++)
    if (strcmp (descriptor->media_type, nondistributable_types[i]) == 0)
      return TRUE;
  return FALSE;
}

static void
add_refs (GArray *refs, GPtrArray *descriptors, ManifestRefRole role)
{
  for (guint i = 0; i < descriptors->len; i++)
    {
      const Descriptor *descriptor = g_ptr_array_index (descriptors, i);
      ManifestRef ref = { descriptor, role, is_foreign (descriptor) };
      g_array_append_val (refs, ref);
    }
}

GArray *
manifest_refs (const Manifest *self)
{
  GArray *refs = g_array_new (FALSE, FALSE, sizeof (ManifestRef));
  if (self->config != NULL)
    {
      ManifestRef ref = { self->config, MANIFEST_REF_CONFIG, FALSE };
      g_array_append_val (refs, ref);
    }
  add_refs (refs, self->layers, MANIFEST_REF_LAYER);
  add_refs (refs, self->manifests, MANIFEST_REF_CHILD);
  return refs;
}

char *
manifest_referrer_descriptor (const Manifest *self, const Digest *digest, guint64 size_bytes)
{
  g_autoptr (Descriptor) descriptor = descriptor_new (self->media_type, digest, size_bytes);
  const char *type = self->artifact_type;
  if ((type == NULL || *type == '\0') && self->config != NULL)
    type = self->config->media_type;
  descriptor->artifact_type = g_strdup (type);
  if (self->annotations != NULL)
    descriptor->annotations = g_ptr_array_ref (self->annotations);
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_doc_set_root (doc, descriptor_write (doc, descriptor));
  return json_write (doc, NULL);
}
