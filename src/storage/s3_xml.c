#include "storage/s3_xml.h"

#include <expat.h>
#include <string.h>

#include "base/text.h"

#define MAX_DEPTH 8
#define MAX_TEXT_BYTES (16u << 10) /* a key of 1024 bytes, each as "%XX", fits many times */

/* Takes the text of one element, `path` being the names from the root on, joined by '/'. FALSE: it cannot be true. */
typedef gboolean (*OnElement) (gpointer data, const char *path, const char *text);

typedef struct {
  XML_Parser expat;
  GString *path, *text;
  guint depth;
  OnElement on_element;
  gpointer data;
  gboolean refused;
} Walk;

static void
refuse (Walk *self)
{
  self->refused = TRUE;
  XML_StopParser (self->expat, XML_FALSE);
}

static void
on_start (void *data, const char *name, const char **attributes)
{
  Walk *self = data;
  const char *colon = strrchr (name, ':');
  if (++self->depth > MAX_DEPTH)
    {
      refuse (self);
      return;
    }
  g_string_append_printf (self->path, "%s%.64s", self->depth > 1 ? "/" : "", colon != NULL ? colon + 1 : name);
  g_string_truncate (self->text, 0);
}

static void
on_end (void *data, const char *name)
{
  Walk *self = data;
  if (!self->refused && !self->on_element (self->data, self->path->str, self->text->str))
    refuse (self);
  const char *slash = strrchr (self->path->str, '/');
  g_string_truncate (self->path, slash != NULL ? (gsize) (slash - self->path->str) : 0);
  g_string_truncate (self->text, 0);
  self->depth--;
}

static void
on_text (void *data, const char *text, int size)
{
  Walk *self = data;
  if (self->text->len + (gsize) size > MAX_TEXT_BYTES)
    refuse (self);
  else
    g_string_append_len (self->text, text, size);
}

static void
on_doctype (void *data, const char *name, const char *system_id, const char *public_id, int has_subset)
{
  refuse (data);
}

static gboolean
walk (const char *text, gsize size, OnElement on_element, gpointer data)
{
  g_autoptr (GString) path = g_string_new (NULL), value = g_string_new (NULL);
  if (size == 0 || size > S3_XML_MAX_BYTES)
    return FALSE;
  Walk self = {
    .expat = XML_ParserCreate (NULL), .path = path, .text = value, .on_element = on_element, .data = data
  };
  g_assert (self.expat != NULL); /* only without memory */
  XML_SetUserData (self.expat, &self);
  XML_SetElementHandler (self.expat, on_start, on_end);
  XML_SetCharacterDataHandler (self.expat, on_text);
  XML_SetStartDoctypeDeclHandler (self.expat, on_doctype);
  enum XML_Status status = XML_Parse (self.expat, text, (int) size, XML_TRUE);
  XML_ParserFree (self.expat);
  return status == XML_STATUS_OK && !self.refused;
}

void
s3_error_clear (S3Error *self)
{
  g_clear_pointer (&self->code, g_free);
  g_clear_pointer (&self->message, g_free);
  g_clear_pointer (&self->region, g_free);
}

static void
take_text (char **place, const char *text)
{
  g_free (*place);
  *place = g_strdup (text);
}

static gboolean
on_error_element (gpointer data, const char *path, const char *text)
{
  S3Error *self = data;
  if (strcmp (path, "Error/Code") == 0)
    take_text (&self->code, text);
  else if (strcmp (path, "Error/Message") == 0)
    take_text (&self->message, text);
  else if (strcmp (path, "Error/Region") == 0)
    take_text (&self->region, text);
  return g_str_has_prefix (path, "Error");
}

gboolean
s3_error_parse (const char *text, gsize size, S3Error *out_error)
{
  g_auto (S3Error) found = { 0 };
  if (!walk (text, size, on_error_element, &found) || found.code == NULL)
    return FALSE;
  *out_error = found;
  found = (S3Error){ 0 };
  return TRUE;
}

static void
object_clear (gpointer data)
{
  g_free (((S3Object *) data)->key);
}

void
s3_listing_clear (S3Listing *self)
{
  g_clear_pointer (&self->objects, g_array_unref);
  g_clear_pointer (&self->folders, g_ptr_array_unref);
  g_clear_pointer (&self->next_token, g_free);
}

typedef struct {
  S3Listing listing;
  S3Object object;
  gboolean truncated;
} ListState;

/* "2026-11-30T09:30:00.123Z"; FALSE when it is none. */
static gboolean
parse_time (const char *text, gint64 *out_ms)
{
  g_autoptr (GTimeZone) utc = g_time_zone_new_utc ();
  g_autoptr (GDateTime) time = g_date_time_new_from_iso8601 (text, utc);
  if (time != NULL)
    *out_ms = g_date_time_to_unix (time) * 1000 + g_date_time_get_microsecond (time) / 1000;
  return time != NULL;
}

/* Stores that know nothing of encoding-type send the key as it is; then a '%' that begins no escape gives it away. */
static gboolean
take_key (char **place, const char *text)
{
  g_autofree char *key = g_uri_unescape_string (text, NULL);
  if (key == NULL || !g_utf8_validate (key, -1, NULL))
    return FALSE;
  g_free (*place);
  *place = g_steal_pointer (&key);
  return TRUE;
}

static gboolean
end_object (ListState *self)
{
  if (self->object.key == NULL || self->listing.objects->len >= S3_XML_MAX_KEYS)
    return FALSE;
  g_array_append_val (self->listing.objects, self->object);
  self->object = (S3Object){ 0 };
  return TRUE;
}

static gboolean
add_folder (ListState *self, const char *text)
{
  char *folder = NULL;
  if (self->listing.folders->len >= S3_XML_MAX_KEYS || !take_key (&folder, text))
    return FALSE;
  g_ptr_array_add (self->listing.folders, folder);
  return TRUE;
}

static gboolean
on_list_element (gpointer data, const char *path, const char *text)
{
  ListState *self = data;
  if (!g_str_has_prefix (path, "ListBucketResult"))
    return FALSE;
  const char *name = path + strlen ("ListBucketResult");
  if (strcmp (name, "/Contents/Key") == 0)
    return take_key (&self->object.key, text);
  if (strcmp (name, "/Contents/Size") == 0)
    return text_parse_u64 (text, &self->object.size_bytes);
  if (strcmp (name, "/Contents/LastModified") == 0)
    return parse_time (text, &self->object.modified_ms);
  if (strcmp (name, "/Contents") == 0)
    return end_object (self);
  if (strcmp (name, "/CommonPrefixes/Prefix") == 0)
    return add_folder (self, text);
  if (strcmp (name, "/IsTruncated") == 0)
    self->truncated = strcmp (text, "true") == 0;
  else if (strcmp (name, "/NextContinuationToken") == 0)
    take_text (&self->listing.next_token, text);
  return TRUE;
}

gboolean
s3_listing_parse (const char *text, gsize size, S3Listing *out_listing, GError **error)
{
  ListState state = { 0 };
  state.listing.objects = g_array_new (FALSE, TRUE, sizeof (S3Object));
  g_array_set_clear_func (state.listing.objects, object_clear);
  state.listing.folders = g_ptr_array_new_with_free_func (g_free);
  gboolean whole = walk (text, size, on_list_element, &state);
  g_free (state.object.key);
  if (!state.truncated)
    g_clear_pointer (&state.listing.next_token, g_free);
  if (whole && (!state.truncated || state.listing.next_token != NULL))
    {
      *out_listing = state.listing;
      return TRUE;
    }
  s3_listing_clear (&state.listing);
  return am_fail (error, AM_ERROR_DATA_LOSS, NULL, "the object store's listing cannot be understood");
}

typedef struct {
  char *key, *code;
  GError *problem;
} DeleteState;

static gboolean
on_delete_element (gpointer data, const char *path, const char *text)
{
  DeleteState *self = data;
  if (!g_str_has_prefix (path, "DeleteResult"))
    return FALSE;
  const char *name = path + strlen ("DeleteResult");
  if (strcmp (name, "/Error/Key") == 0)
    take_text (&self->key, text);
  else if (strcmp (name, "/Error/Code") == 0)
    take_text (&self->code, text);
  else if (strcmp (name, "/Error") == 0 && self->problem == NULL && g_strcmp0 (self->code, "NoSuchKey") != 0)
    am_fail (&self->problem, AM_ERROR_UNAVAILABLE, NULL, "cannot remove object %.300s: %.100s",
             self->key != NULL ? self->key : "?", self->code != NULL ? self->code : "no reason given");
  return TRUE;
}

gboolean
s3_delete_result_check (const char *text, gsize size, GError **error)
{
  DeleteState state = { 0 };
  gboolean whole = walk (text, size, on_delete_element, &state);
  g_free (state.key);
  g_free (state.code);
  if (!whole)
    {
      g_clear_error (&state.problem);
      return am_fail (error, AM_ERROR_DATA_LOSS, NULL, "the object store's answer to a removal cannot be understood");
    }
  if (state.problem == NULL)
    return TRUE;
  g_propagate_error (error, state.problem);
  return FALSE;
}

static void
upload_clear (gpointer data)
{
  S3Upload *self = data;
  g_free (self->key);
  g_free (self->id);
}

void
s3_uploads_clear (S3Uploads *self)
{
  g_clear_pointer (&self->uploads, g_array_unref);
  g_clear_pointer (&self->next_key, g_free);
  g_clear_pointer (&self->next_id, g_free);
}

typedef struct {
  S3Uploads uploads;
  S3Upload upload;
  gboolean truncated;
} UploadsState;

static gboolean
end_upload (UploadsState *self)
{
  if (self->upload.key == NULL || self->upload.id == NULL || self->uploads.uploads->len >= S3_XML_MAX_KEYS)
    return FALSE;
  g_array_append_val (self->uploads.uploads, self->upload);
  self->upload = (S3Upload){ 0 };
  return TRUE;
}

static gboolean
on_upload_element (gpointer data, const char *path, const char *text)
{
  UploadsState *self = data;
  if (!g_str_has_prefix (path, "ListMultipartUploadsResult"))
    return FALSE;
  const char *name = path + strlen ("ListMultipartUploadsResult");
  if (strcmp (name, "/Upload/Initiated") == 0)
    return parse_time (text, &self->upload.begun_ms);
  if (strcmp (name, "/Upload") == 0)
    return end_upload (self);
  if (strcmp (name, "/Upload/Key") == 0)
    take_text (&self->upload.key, text);
  else if (strcmp (name, "/Upload/UploadId") == 0)
    take_text (&self->upload.id, text);
  else if (strcmp (name, "/NextKeyMarker") == 0)
    take_text (&self->uploads.next_key, text);
  else if (strcmp (name, "/NextUploadIdMarker") == 0)
    take_text (&self->uploads.next_id, text);
  else if (strcmp (name, "/IsTruncated") == 0)
    self->truncated = strcmp (text, "true") == 0;
  return TRUE;
}

gboolean
s3_uploads_parse (const char *text, gsize size, S3Uploads *out_uploads, GError **error)
{
  UploadsState state = { 0 };
  state.uploads.uploads = g_array_new (FALSE, TRUE, sizeof (S3Upload));
  g_array_set_clear_func (state.uploads.uploads, upload_clear);
  gboolean whole = walk (text, size, on_upload_element, &state);
  upload_clear (&state.upload);
  if (!state.truncated)
    {
      g_clear_pointer (&state.uploads.next_key, g_free);
      g_clear_pointer (&state.uploads.next_id, g_free);
    }
  if (whole && (!state.truncated || (state.uploads.next_key != NULL && *state.uploads.next_key != '\0')))
    {
      *out_uploads = state.uploads;
      return TRUE;
    }
  s3_uploads_clear (&state.uploads);
  return am_fail (error, AM_ERROR_DATA_LOSS, NULL, "the object store's list of uploads cannot be understood");
}

typedef struct {
  GPtrArray *parts;
  char *etag;
  guint64 number, size_bytes, next;
  gint64 modified_ms;
  gboolean has_size, truncated;
} PartsState;

static gboolean
end_part (PartsState *self)
{
  gboolean is_whole = self->etag != NULL && self->has_size && self->number >= 1 && self->number <= OBJECT_PARTS_MAX;
  if (!is_whole || self->parts->len >= OBJECT_PARTS_MAX)
    return FALSE;
  ObjectPart *part = object_part_new ((guint) self->number, self->size_bytes, self->etag);
  part->modified_ms = MAX (self->modified_ms, 0);
  g_ptr_array_add (self->parts, part);
  g_clear_pointer (&self->etag, g_free);
  self->number = 0;
  self->modified_ms = 0;
  self->has_size = FALSE;
  return TRUE;
}

static gboolean
on_part_element (gpointer data, const char *path, const char *text)
{
  PartsState *self = data;
  if (!g_str_has_prefix (path, "ListPartsResult"))
    return FALSE;
  const char *name = path + strlen ("ListPartsResult");
  if (strcmp (name, "/Part/PartNumber") == 0)
    return text_parse_u64 (text, &self->number);
  if (strcmp (name, "/Part/Size") == 0)
    return self->has_size = text_parse_u64 (text, &self->size_bytes);
  if (strcmp (name, "/Part/LastModified") == 0)
    return parse_time (text, &self->modified_ms);
  if (strcmp (name, "/Part") == 0)
    return end_part (self);
  if (strcmp (name, "/NextPartNumberMarker") == 0)
    return *text == '\0' || text_parse_u64 (text, &self->next);
  if (strcmp (name, "/Part/ETag") == 0)
    take_text (&self->etag, text);
  else if (strcmp (name, "/IsTruncated") == 0)
    self->truncated = strcmp (text, "true") == 0;
  return TRUE;
}

gboolean
s3_parts_parse (const char *text, gsize size, GPtrArray *parts, guint *out_next, GError **error)
{
  PartsState state = { .parts = parts };
  gboolean whole = walk (text, size, on_part_element, &state);
  g_free (state.etag);
  if (!whole || (state.truncated && (state.next < 1 || state.next > OBJECT_PARTS_MAX)))
    return am_fail (error, AM_ERROR_DATA_LOSS, NULL, "the object store's list of parts cannot be understood");
  *out_next = state.truncated ? (guint) state.next : 0;
  return TRUE;
}

typedef struct {
  const char *path;
  gsize root_size;
  char *value;
} ValueState;

static gboolean
on_value_element (gpointer data, const char *path, const char *text)
{
  ValueState *self = data;
  if (self->value == NULL && strcmp (path, self->path) == 0)
    self->value = g_strdup (text);
  return strncmp (path, self->path, self->root_size) == 0
         && (path[self->root_size] == '\0' || path[self->root_size] == '/');
}

char *
s3_xml_value (const char *text, gsize size, const char *path)
{
  ValueState state = { path, strcspn (path, "/"), NULL };
  if (!walk (text, size, on_value_element, &state))
    g_clear_pointer (&state.value, g_free);
  return state.value;
}

static gboolean
on_any_element (gpointer data, const char *path, const char *text)
{
  const char *root = data;
  gsize size = strlen (root);
  return strncmp (path, root, size) == 0 && (path[size] == '\0' || path[size] == '/');
}

gboolean
s3_xml_is (const char *text, gsize size, const char *root)
{
  return walk (text, size, on_any_element, (gpointer) root);
}
