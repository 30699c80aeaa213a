#include "gateway/gateway_request.h"

#include <string.h>

#include "base/json.h"
#include "domain/upload_rules.h"
#include "storage/object_parts.h"

#define MAX_ETAG_BYTES 128
#define MAX_CHUNK_TEXT ((UPLOAD_PROBE_BYTES + 2) / 3 * 4)

void
probe_request_clear (ProbeRequest *self)
{
  g_clear_pointer (&self->file_name, g_free);
  g_clear_pointer (&self->chunk, g_bytes_unref);
}

/* An object whose members are among `names`, each at most once. */
static gboolean
check_members (yyjson_val *object, const char *const *names, GError **error)
{
  guint seen = 0;
  size_t index, n;
  yyjson_val *key, *value;
  if (!yyjson_is_obj (object))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "a JSON object is expected");
  yyjson_obj_foreach (object, index, n, key, value)
  {
    guint i = 0;
    while (names[i] != NULL && !yyjson_equals_str (key, names[i]))
      i++;
    if (names[i] == NULL)
      return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "unknown member \"%.64s\"", yyjson_get_str (key));
    if ((seen & 1u << i) != 0)
      return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "member \"%s\" is there twice", names[i]);
    seen |= 1u << i;
  }
  return TRUE;
}

static yyjson_doc *
parse (GBytes *body, const char *const *names, GError **error)
{
  gsize size = 0;
  gconstpointer text = g_bytes_get_data (body, &size);
  g_autoptr (yyjson_doc) doc = json_parse (text, size, GATEWAY_BODY_MAX_BYTES, JSON_STRICT, error);
  return doc != NULL && check_members (yyjson_doc_get_root (doc), names, error) ? g_steal_pointer (&doc) : NULL;
}

static char *
take_file_name (yyjson_val *root, GError **error)
{
  char *name = upload_file_name (json_get_string (root, "fileName"));
  if (name == NULL)
    am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL,
             "\"fileName\" must be the name of a file: at most 200 bytes, not hidden, without control characters");
  return name;
}

/* base64 as RFC 4648 section 4 has it; g_base64_decode skips what it does not know. */
static GBytes *
take_chunk (yyjson_val *root, GError **error)
{
  static const char alphabet[] = G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "+/";
  const char *text = json_get_string (root, "chunk");
  gsize size = text != NULL ? strlen (text) : 0, n = text != NULL ? strspn (text, alphabet) : 0;
  gsize n_padding = size - n;
  if (size > MAX_CHUNK_TEXT)
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL, "\"chunk\" is longer than %u bytes",
                         UPLOAD_PROBE_BYTES);
  if (size == 0 || size % 4 != 0 || n_padding > 2 || strspn (text + n, "=") != n_padding)
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL,
                         "\"chunk\" must be the file's first bytes in base64, up to %u of them", UPLOAD_PROBE_BYTES);
  guint8 *bytes = g_base64_decode (text, &size);
  return g_bytes_new_take (bytes, size);
}

gboolean
probe_request_parse (GBytes *body, ProbeRequest *out_request, GError **error)
{
  static const char *const names[] = { "fileName", "sizeBytes", "chunk", NULL };
  g_auto (ProbeRequest) request = { 0 };
  g_autoptr (yyjson_doc) doc = parse (body, names, error);
  if (doc == NULL)
    return FALSE;
  yyjson_val *root = yyjson_doc_get_root (doc), *size = yyjson_obj_get (root, "sizeBytes");
  if (size != NULL && !yyjson_is_null (size) && (!yyjson_is_uint (size) || yyjson_get_uint (size) > G_MAXINT64))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "\"sizeBytes\" must be a number of bytes");
  request.size_bytes = (gint64) yyjson_get_uint (size);
  request.file_name = take_file_name (root, error);
  request.chunk = request.file_name != NULL ? take_chunk (root, error) : NULL;
  if (request.chunk == NULL)
    return FALSE;
  *out_request = request;
  request = (ProbeRequest){ 0 };
  return TRUE;
}

char *
init_request_parse (GBytes *body, GError **error)
{
  static const char *const names[] = { "fileName", NULL };
  g_autoptr (yyjson_doc) doc = parse (body, names, error);
  return doc != NULL ? take_file_name (yyjson_doc_get_root (doc), error) : NULL;
}

/* 0: it is none. */
static guint
part_number (yyjson_val *value)
{
  guint64 number = yyjson_is_uint (value) ? yyjson_get_uint (value) : 0;
  return number <= OBJECT_PARTS_MAX ? (guint) number : 0;
}

/* The array `name`, with something in it but not too much. */
static yyjson_val *
take_list (yyjson_val *root, const char *name, GError **error)
{
  yyjson_val *list = json_get_array (root, name);
  gsize n = yyjson_arr_size (list);
  if (n == 0 || n > OBJECT_PARTS_MAX)
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL, "\"%s\" must be a list of 1 to %u parts", name,
                         OBJECT_PARTS_MAX);
  return list;
}

GArray *
parts_request_parse (GBytes *body, GError **error)
{
  static const char *const names[] = { "partNumbers", NULL };
  g_autoptr (yyjson_doc) doc = parse (body, names, error);
  yyjson_val *list = doc != NULL ? take_list (yyjson_doc_get_root (doc), names[0], error) : NULL;
  if (list == NULL)
    return NULL;
  g_autoptr (GArray) numbers = g_array_new (FALSE, FALSE, sizeof (guint));
  g_autofree gboolean *seen = g_new0 (gboolean, OBJECT_PARTS_MAX + 1);
  size_t index, n;
  yyjson_val *value;
  yyjson_arr_foreach (list, index, n, value)
  {
    guint number = part_number (value);
    if (number == 0 || seen[number])
      return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL,
                           "parts are numbered from 1 to %u, and each is asked for once", OBJECT_PARTS_MAX);
    seen[number] = TRUE;
    g_array_append_val (numbers, number);
  }
  return g_steal_pointer (&numbers);
}

static ObjectPart *
take_part (yyjson_val *value, guint after, GError **error)
{
  static const char *const names[] = { "partNumber", "etag", NULL };
  if (!check_members (value, names, error))
    return NULL;
  guint number = part_number (yyjson_obj_get (value, "partNumber"));
  const char *etag = json_get_string (value, "etag");
  if (number <= after)
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL,
                         "parts are numbered from 1 to %u and listed in ascending order", OBJECT_PARTS_MAX);
  if (etag == NULL || *etag == '\0' || strlen (etag) > MAX_ETAG_BYTES)
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL, "part %u lacks the \"etag\" of its answer", number);
  return object_part_new (number, 0, etag);
}

GPtrArray *
complete_request_parse (GBytes *body, GError **error)
{
  static const char *const names[] = { "parts", NULL };
  g_autoptr (yyjson_doc) doc = parse (body, names, error);
  yyjson_val *list = doc != NULL ? take_list (yyjson_doc_get_root (doc), names[0], error) : NULL;
  if (list == NULL)
    return NULL;
  g_autoptr (GPtrArray) parts = g_ptr_array_new_with_free_func ((GDestroyNotify) object_part_free);
  guint last = 0;
  size_t index, n;
  yyjson_val *value;
  yyjson_arr_foreach (list, index, n, value)
  {
    ObjectPart *part = take_part (value, last, error);
    if (part == NULL)
      return NULL;
    last = part->number;
    g_ptr_array_add (parts, part);
  }
  return g_steal_pointer (&parts);
}

gboolean
empty_request_check (GBytes *body, GError **error)
{
  static const char *const names[] = { NULL };
  if (g_bytes_get_size (body) == 0)
    return TRUE;
  g_autoptr (yyjson_doc) doc = parse (body, names, error);
  return doc != NULL;
}
