#include "cluster/model_upload.h"

#include <string.h>
#include <sys/random.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/text.h"

#define MAX_VALUE_BYTES 4096
#define EXPIRES_ANNOTATION MODEL_ANNOTATION "upload-expires-at"
#define GENERATION_ANNOTATION MODEL_ANNOTATION "upload-owner-generation"
#define TOKEN_BYTES 24
#define MAX_TIME_MS (253402300799ll * 1000) /* the year 9999 */

#define CALL(name) (1u << UPLOAD_CALL_##name)

static const struct {
  const char *name;
  guint calls;
  ModelUploadState state;
} phases[] = {
  [UPLOAD_ISSUED] = { "issued", CALL (PUT) | CALL (PROBE) | CALL (INIT) | CALL (ABORT), MODEL_UPLOAD_OPEN },
  [UPLOAD_PROBING] = { "probing", CALL (PUT) | CALL (PROBE) | CALL (INIT) | CALL (ABORT), MODEL_UPLOAD_OPEN },
  [UPLOAD_UPLOADING] = { "uploading", CALL (INIT) | CALL (ABORT) | CALL (PARTS) | CALL (COMPLETE),
                         MODEL_UPLOAD_OPEN },
  [UPLOAD_UPLOADED] = { "uploaded", 0, MODEL_UPLOAD_STAGED },
  [UPLOAD_PUBLISHING] = { "publishing", 0, MODEL_UPLOAD_STAGED },
  [UPLOAD_COMPLETED] = { "completed", 0, MODEL_UPLOAD_STAGED },
  [UPLOAD_FAILED] = { "failed", 0, MODEL_UPLOAD_OVER },
  [UPLOAD_ABORTED] = { "aborted", 0, MODEL_UPLOAD_OVER },
  [UPLOAD_EXPIRED] = { "expired", 0, MODEL_UPLOAD_OVER },
};

typedef enum { VALUE_TEXT, VALUE_SIZE, VALUE_TIME } ValueType;

/* Keys of the Secret's data beside `phase` and `stagedHandle`. */
static const struct {
  const char *key;
  ValueType type;
  gsize offset;
} fields[] = {
  { "tokenHash", VALUE_TEXT, G_STRUCT_OFFSET (ModelUpload, token_hash) },
  { "expectedSizeBytes", VALUE_SIZE, G_STRUCT_OFFSET (ModelUpload, expected_bytes) },
  { "stagingKeyPrefix", VALUE_TEXT, G_STRUCT_OFFSET (ModelUpload, key_prefix) },
  { "declaredInputFormat", VALUE_TEXT, G_STRUCT_OFFSET (ModelUpload, declared_format) },
  { "failureMessage", VALUE_TEXT, G_STRUCT_OFFSET (ModelUpload, failure) },
  { "probeFileName", VALUE_TEXT, G_STRUCT_OFFSET (ModelUpload, probe_file) },
  { "probeResolvedInputFormat", VALUE_TEXT, G_STRUCT_OFFSET (ModelUpload, probe_format) },
  { "probeSizeBytes", VALUE_SIZE, G_STRUCT_OFFSET (ModelUpload, probe_bytes) },
  { "multipartUploadID", VALUE_TEXT, G_STRUCT_OFFSET (ModelUpload, multipart_id) },
  { "multipartFileName", VALUE_TEXT, G_STRUCT_OFFSET (ModelUpload, multipart_file) },
  { "holder", VALUE_TEXT, G_STRUCT_OFFSET (ModelUpload, holder) },
  { "holderRenewedAt", VALUE_TIME, G_STRUCT_OFFSET (ModelUpload, holder_renewed_ms) },
  { "uploadedSizeBytes", VALUE_SIZE, G_STRUCT_OFFSET (ModelUpload, uploaded_bytes) },
};

typedef struct {
  char *key, *file_name;
  guint64 size_bytes;
} StagedHandle;

static const JsonField handle_fields[] = {
  JSON_FIELD (StagedHandle, key, "key", JSON_STRING, TRUE),
  JSON_FIELD (StagedHandle, file_name, "fileName", JSON_STRING, TRUE),
  JSON_FIELD (StagedHandle, size_bytes, "sizeBytes", JSON_UINT64, TRUE),
};

const char *
upload_phase_name (UploadPhase phase)
{
  return phases[phase].name;
}

gboolean
upload_phase_allows (UploadPhase phase, UploadCall call)
{
  return (phases[phase].calls & (1u << call)) != 0;
}

gboolean
upload_phase_is_open (UploadPhase phase)
{
  return phases[phase].state == MODEL_UPLOAD_OPEN;
}

static gboolean
parse_phase (const char *name, UploadPhase *out_phase)
{
  for (gsize i = 0; name != NULL && i < G_N_ELEMENTS (phases); i++)
    if (strcmp (phases[i].name, name) == 0)
      {
        *out_phase = (UploadPhase) i;
        return TRUE;
      }
  return FALSE;
}

static char *
text_of_ms (gint64 time_ms)
{
  return time_text (CLAMP (time_ms, 0, MAX_TIME_MS) / 1000);
}

/* 0: it is none. */
static gint64
parse_time (const char *text)
{
  return MAX (time_text_parse (text), 0) * 1000;
}

void
model_upload_free (ModelUpload *self)
{
  if (self == NULL)
    return;
  for (gsize i = 0; i < G_N_ELEMENTS (fields); i++)
    if (fields[i].type == VALUE_TEXT)
      g_free (G_STRUCT_MEMBER (char *, self, fields[i].offset));
  g_free (self->id);
  g_free (self->staged_file);
  kube_object_unref (self->stored);
  g_free (self);
}

static char *
hash_of (const char *token)
{
  return g_compute_checksum_for_string (G_CHECKSUM_SHA256, token, -1);
}

static void
make_token (char out[MODEL_UPLOAD_TOKEN_SIZE])
{
  guint8 bytes[TOKEN_BYTES];
  if (getrandom (bytes, sizeof bytes, 0) != sizeof bytes)
    g_error ("the kernel gives no random bytes");
  for (gsize i = 0; i < sizeof bytes; i++)
    g_snprintf (out + 2 * i, 3, "%02x", bytes[i]);
}

ModelUpload *
model_upload_new (const ModelOwner *owner, gint64 generation, guint64 expected_bytes, gint64 now_ms,
                  char out_token[MODEL_UPLOAD_TOKEN_SIZE])
{
  ModelUpload *self = g_new0 (ModelUpload, 1);
  make_token (out_token);
  self->id = model_object_name (UPLOAD_SESSION_PREFIX, owner->uid);
  self->key_prefix = model_object_name ("", owner->uid);
  self->token_hash = hash_of (out_token);
  self->expected_bytes = expected_bytes;
  self->owner_generation = generation;
  self->expires_ms = now_ms + MODEL_UPLOAD_TTL_MS;
  return self;
}

/* The decoded value of a key; NULL when there is none, or none that is text. */
static char *
read_value (yyjson_val *data, const char *key)
{
  gsize size = 0;
  const char *coded = json_get_string (data, key);
  if (coded == NULL || strlen (coded) > MAX_VALUE_BYTES * 2)
    return NULL;
  g_autofree char *text = (char *) g_base64_decode (coded, &size);
  return size > 0 && size <= MAX_VALUE_BYTES && g_utf8_validate (text, (gssize) size, NULL) ? g_strndup (text, size)
                                                                                            : NULL;
}

static gboolean
read_field (ModelUpload *self, yyjson_val *data, gsize index, GError **error)
{
  gpointer slot = G_STRUCT_MEMBER_P (self, fields[index].offset);
  g_autofree char *text = read_value (data, fields[index].key);
  if (text == NULL)
    return TRUE;
  if (fields[index].type == VALUE_TEXT)
    *(char **) slot = g_steal_pointer (&text);
  else if (fields[index].type == VALUE_TIME)
    *(gint64 *) slot = parse_time (text);
  else if (!text_parse_u64 (text, slot))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "%s is no size", fields[index].key);
  return TRUE;
}

/* A name of the store's, one segment. */
static gboolean
is_segment (const char *text)
{
  return text != NULL && *text != '\0' && *text != '.' && strchr (text, '/') == NULL;
}

/* What the key has below the session's prefix; where it is of another form, the name alone. */
static char *
staged_file_of (const ModelUpload *self, const StagedHandle *handle)
{
  gsize size = self->key_prefix != NULL ? strlen (self->key_prefix) : 0;
  gboolean is_below = size > 0 && strncmp (handle->key, self->key_prefix, size) == 0 && handle->key[size] == '/'
                      && path_is_safe (handle->key) && g_str_has_suffix (handle->key, handle->file_name);
  return g_strdup (is_below ? handle->key + size + 1 : handle->file_name);
}

static gboolean
read_handle (ModelUpload *self, yyjson_val *data, GError **error)
{
  StagedHandle handle = { 0 };
  g_autofree char *text = read_value (data, "stagedHandle");
  if (text == NULL)
    return TRUE;
  g_autoptr (yyjson_doc) doc = json_parse (text, strlen (text), MAX_VALUE_BYTES, JSON_STRICT, error);
  gboolean read = doc != NULL
                  && json_bind (yyjson_doc_get_root (doc), handle_fields, G_N_ELEMENTS (handle_fields), &handle,
                                error);
  if (read && is_segment (handle.file_name))
    {
      self->staged_file = staged_file_of (self, &handle);
      self->staged_bytes = handle.size_bytes;
    }
  else if (read)
    read = am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "stagedHandle names no file");
  json_clear (handle_fields, G_N_ELEMENTS (handle_fields), &handle);
  return read;
}

static gboolean
check_whole (const ModelUpload *self, GError **error)
{
  gboolean is_staged = phases[self->phase].state == MODEL_UPLOAD_STAGED;
  if (self->token_hash == NULL || !is_segment (self->key_prefix) || self->expires_ms == 0)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "tokenHash, stagingKeyPrefix or the expiry is missing");
  if ((self->multipart_id != NULL) != is_segment (self->multipart_file))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "an upload in parts has no name, or no file");
  if (self->probe_file != NULL && !is_segment (self->probe_file))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "probeFileName names no file");
  if (is_staged && self->staged_file == NULL)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "phase %s without a stagedHandle",
                    phases[self->phase].name);
  return TRUE;
}

ModelUpload *
model_upload_parse (KubeObject *secret, GError **error)
{
  g_autoptr (ModelUpload) self = g_new0 (ModelUpload, 1);
  yyjson_val *data = json_get_object (kube_object_root (secret), "data");
  yyjson_val *metadata = json_get_object (kube_object_root (secret), "metadata");
  const char *generation = kube_object_annotation (secret, GENERATION_ANNOTATION);
  guint64 value = 0;
  g_autofree char *phase = read_value (data, "phase");
  self->stored = kube_object_ref (secret);
  self->id = g_strdup (kube_object_name (secret));
  self->issued_ms = parse_time (json_get_string (metadata, "creationTimestamp"));
  self->expires_ms = parse_time (kube_object_annotation (secret, EXPIRES_ANNOTATION));
  self->owner_generation = text_parse_u64 (generation, &value) && value <= G_MAXINT64 ? (gint64) value : 0;
  gboolean read = parse_phase (phase, &self->phase)
                  || am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "it has no phase");
  for (gsize i = 0; read && i < G_N_ELEMENTS (fields); i++)
    read = read_field (self, data, i, error);
  if (read && read_handle (self, data, error) && check_whole (self, error))
    return g_steal_pointer (&self);
  g_prefix_error (error, "Secret %s/%s is no upload session: ", kube_object_namespace (secret), self->id);
  return NULL;
}

/* NULL: the key goes. */
static void
put_value (yyjson_mut_doc *doc, yyjson_mut_val *data, const char *key, const char *text)
{
  yyjson_mut_obj_remove_key (data, key);
  if (text == NULL)
    return;
  g_autofree char *coded = g_base64_encode ((const guchar *) text, strlen (text));
  yyjson_mut_obj_add_strcpy (doc, data, key, coded);
}

static char *
write_field (const ModelUpload *self, gsize index)
{
  gconstpointer slot = G_STRUCT_MEMBER_P (self, fields[index].offset);
  switch (fields[index].type)
    {
    case VALUE_TEXT: return g_strdup (*(char *const *) slot);
    case VALUE_TIME: return *(const gint64 *) slot != 0 ? text_of_ms (*(const gint64 *) slot) : NULL;
    case VALUE_SIZE: break;
    }
  guint64 size = *(const guint64 *) slot;
  return size != 0 ? g_strdup_printf ("%" G_GUINT64_FORMAT, size) : NULL;
}

static char *
write_handle (const ModelUpload *self)
{
  if (self->staged_file == NULL)
    return NULL;
  g_autofree char *key = model_upload_key (self, self->staged_file);
  const char *slash = strrchr (self->staged_file, '/');
  const StagedHandle handle = { key, (char *) (slash != NULL ? slash + 1 : self->staged_file), self->staged_bytes };
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  json_unbind (doc, root, handle_fields, G_N_ELEMENTS (handle_fields), &handle);
  return json_write (doc, NULL);
}

static yyjson_mut_doc *
new_document (const ModelUpload *self, const ModelOwner *owner)
{
  yyjson_mut_doc *doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_obj_add_str (doc, root, "apiVersion", "v1");
  yyjson_mut_obj_add_str (doc, root, "kind", secret_kind.kind);
  yyjson_mut_val *metadata = yyjson_mut_obj_add_obj (doc, root, "metadata");
  yyjson_mut_obj_add_strcpy (doc, metadata, "name", self->id);
  model_owner_mark (doc, metadata, owner, UPLOAD_SESSION_APP);
  yyjson_mut_obj_add_str (doc, root, "type", "Opaque");
  return doc;
}

yyjson_mut_doc *
model_upload_document (const ModelUpload *self, const ModelOwner *owner)
{
  yyjson_mut_doc *doc = self->stored != NULL ? kube_object_edit (self->stored) : new_document (self, owner);
  yyjson_mut_val *root = yyjson_mut_doc_get_root (doc), *metadata = yyjson_mut_obj_get (root, "metadata");
  yyjson_mut_val *annotations = metadata_map (doc, metadata, "annotations");
  yyjson_mut_val *data = metadata_map (doc, root, "data");
  g_autofree char *expires = text_of_ms (self->expires_ms), *handle = write_handle (self);
  g_autofree char *generation = g_strdup_printf ("%" G_GINT64_FORMAT, self->owner_generation);
  yyjson_mut_obj_remove_key (metadata, "managedFields"); /* the server's own; long */
  yyjson_mut_obj_remove_key (annotations, EXPIRES_ANNOTATION);
  yyjson_mut_obj_remove_key (annotations, GENERATION_ANNOTATION);
  yyjson_mut_obj_add_strcpy (doc, annotations, EXPIRES_ANNOTATION, expires);
  yyjson_mut_obj_add_strcpy (doc, annotations, GENERATION_ANNOTATION, generation);
  put_value (doc, data, "phase", phases[self->phase].name);
  put_value (doc, data, "stagedHandle", handle);
  for (gsize i = 0; i < G_N_ELEMENTS (fields); i++)
    {
      g_autofree char *text = write_field (self, i);
      put_value (doc, data, fields[i].key, text);
    }
  return doc;
}

gboolean
model_upload_admits (const ModelUpload *self, const char *token)
{
  Digest ours, theirs;
  g_autofree char *hash = hash_of (token), *tagged = g_strconcat ("sha256:", hash, NULL);
  g_autofree char *kept = g_strconcat ("sha256:", self->token_hash, NULL);
  return digest_parse (kept, &ours, NULL) && digest_parse (tagged, &theirs, NULL)
         && digest_equal_secret (&ours, &theirs);
}

gboolean
model_upload_is_held (const ModelUpload *self, gint64 now_ms)
{
  return self->phase == UPLOAD_UPLOADING && self->holder != NULL
         && now_ms - self->holder_renewed_ms < MODEL_UPLOAD_HOLD_MS;
}

void
model_upload_restart (ModelUpload *self)
{
  self->phase = UPLOAD_ISSUED;
  g_clear_pointer (&self->holder, g_free);
  self->holder_renewed_ms = 0;
  self->uploaded_bytes = 0;
  g_clear_pointer (&self->multipart_id, g_free);
  g_clear_pointer (&self->multipart_file, g_free);
  g_clear_pointer (&self->probe_file, g_free);
  g_clear_pointer (&self->probe_format, g_free);
  self->probe_bytes = 0;
}

gboolean
model_upload_settle (ModelUpload *self, gint64 now_ms)
{
  if (!upload_phase_is_open (self->phase) || model_upload_is_held (self, now_ms))
    return FALSE;
  if (now_ms >= self->expires_ms)
    {
      model_upload_end (self, UPLOAD_EXPIRED, "the upload did not end in time");
      return TRUE;
    }
  if (self->phase != UPLOAD_UPLOADING || self->multipart_id != NULL)
    return FALSE;
  model_upload_restart (self);
  return TRUE;
}

void
model_upload_extend (ModelUpload *self, gint64 now_ms)
{
  gint64 latest_ms = self->issued_ms != 0 ? self->issued_ms + MODEL_UPLOAD_MAX_MS : G_MAXINT64;
  self->expires_ms = MAX (self->expires_ms, MIN (now_ms + MODEL_UPLOAD_TTL_MS, latest_ms));
}

void
model_upload_set_staged (ModelUpload *self, const char *staged_file, guint64 size_bytes)
{
  g_autofree char *name = g_strdup (staged_file); /* may be one of those that are dropped */
  model_upload_restart (self);
  self->phase = UPLOAD_UPLOADED;
  self->uploaded_bytes = size_bytes;
  g_free (self->staged_file);
  self->staged_file = g_steal_pointer (&name);
  self->staged_bytes = size_bytes;
}

void
model_upload_end (ModelUpload *self, UploadPhase phase, const char *failure)
{
  g_autofree char *text = g_strdup (failure);
  model_upload_restart (self);
  self->phase = phase;
  g_clear_pointer (&self->staged_file, g_free);
  self->staged_bytes = 0;
  g_free (self->failure);
  self->failure = g_steal_pointer (&text);
}

ModelUploadState
model_upload_state (const ModelUpload *self, gint64 now_ms)
{
  if (self == NULL)
    return MODEL_UPLOAD_NONE;
  ModelUploadState state = phases[self->phase].state;
  gboolean is_over = state == MODEL_UPLOAD_OPEN && now_ms >= self->expires_ms && !model_upload_is_held (self, now_ms);
  return is_over ? MODEL_UPLOAD_OVER : state;
}

char *
model_upload_key (const ModelUpload *self, const char *file)
{
  return g_strconcat (self->key_prefix, "/", file, NULL);
}
