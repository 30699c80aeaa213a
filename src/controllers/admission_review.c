#include "controllers/admission_review.h"

#include <string.h>

#define API_VERSION "admission.k8s.io/v1"
#define KIND "AdmissionReview"
#define MAX_UID_BYTES 128
#define MAX_NAME_BYTES 253
#define UNPROCESSABLE 422

void
admission_request_clear (AdmissionRequest *self)
{
  g_clear_pointer (&self->document, yyjson_doc_free);
}

static gboolean
refuse (GError **error, const char *what)
{
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "BadRequest", "no " KIND " of " API_VERSION ": %s", what);
}

/* A text of the request, "" when it is absent and may be. */
typedef struct {
  const char *name;
  gsize offset, max_bytes;
  gboolean is_needed;
} TextRule;

static gboolean
take_texts (yyjson_val *object, const TextRule *rules, gsize n, gpointer out, GError **error)
{
  for (gsize i = 0; i < n; i++)
    {
      yyjson_val *member = yyjson_obj_get (object, rules[i].name);
      gboolean is_absent = member == NULL || yyjson_is_null (member);
      const char *text = is_absent ? "" : json_get_string (object, rules[i].name);
      if (text == NULL || strlen (text) > rules[i].max_bytes || (rules[i].is_needed && text[0] == '\0'))
        return refuse (error, rules[i].name);
      G_STRUCT_MEMBER (const char *, out, rules[i].offset) = text;
    }
  return TRUE;
}

static gboolean
take_operation (const char *name, AdmissionOperation *out)
{
  static const char *const names[] = {
    [ADMISSION_CREATE] = "CREATE",
    [ADMISSION_UPDATE] = "UPDATE",
    [ADMISSION_DELETE] = "DELETE",
    [ADMISSION_CONNECT] = "CONNECT",
  };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (g_strcmp0 (name, names[i]) == 0)
      {
        *out = (AdmissionOperation) i;
        return TRUE;
      }
  return FALSE;
}

/* NULL where there is none; FALSE for what is neither that nor an object. */
static gboolean
take_object (yyjson_val *request, const char *name, gboolean is_needed, yyjson_val **out)
{
  yyjson_val *value = yyjson_obj_get (request, name);
  *out = yyjson_is_obj (value) ? value : NULL;
  return *out != NULL || (!is_needed && (value == NULL || yyjson_is_null (value)));
}

static gboolean
take_request (yyjson_val *request, AdmissionRequest *out, GError **error)
{
#define TEXT(member, name, max_bytes, is_needed)                           \
  {                                                                        \
    name, G_STRUCT_OFFSET (AdmissionRequest, member), max_bytes, is_needed \
  }
  static const TextRule texts[] = {
    TEXT (uid, "uid", MAX_UID_BYTES, TRUE),
    TEXT (name, "name", MAX_NAME_BYTES, FALSE),
    TEXT (namespace, "namespace", MAX_NAME_BYTES, FALSE),
    TEXT (subresource, "subResource", MAX_NAME_BYTES, FALSE),
  };
  static const TextRule kinds[] = {
    TEXT (group, "group", MAX_NAME_BYTES, FALSE),
    TEXT (version, "version", MAX_NAME_BYTES, TRUE),
    TEXT (kind, "kind", MAX_NAME_BYTES, TRUE),
  };
  static const TextRule users[] = { TEXT (user, "username", MAX_NAME_BYTES * 4, FALSE) };
#undef TEXT
  yyjson_val *dry_run = yyjson_obj_get (request, "dryRun");
  if (!take_texts (request, texts, G_N_ELEMENTS (texts), out, error)
      || !take_texts (json_get_object (request, "kind"), kinds, G_N_ELEMENTS (kinds), out, error)
      || !take_texts (json_get_object (request, "userInfo"), users, G_N_ELEMENTS (users), out, error))
    return FALSE;
  if (!take_operation (json_get_string (request, "operation"), &out->operation))
    return refuse (error, "operation");
  if (dry_run != NULL && !yyjson_is_null (dry_run) && !yyjson_is_bool (dry_run))
    return refuse (error, "dryRun");
  out->is_dry_run = yyjson_is_true (dry_run);
  gboolean has_object = out->operation == ADMISSION_CREATE || out->operation == ADMISSION_UPDATE;
  if (!take_object (request, "object", has_object, &out->object))
    return refuse (error, "object");
  return take_object (request, "oldObject", out->operation == ADMISSION_UPDATE, &out->old_object)
         || refuse (error, "oldObject");
}

gboolean
admission_request_parse (gconstpointer text, gsize size, AdmissionRequest *out_request, GError **error)
{
  g_auto (AdmissionRequest) request = { 0 };
  if (json_count_values (text, size) > ADMISSION_REVIEW_MAX_VALUES)
    return refuse (error, "more than " G_STRINGIFY (ADMISSION_REVIEW_MAX_VALUES) " values");
  request.document = json_parse (text, size, ADMISSION_REVIEW_MAX_BYTES, JSON_STRICT, error);
  if (request.document == NULL)
    return FALSE;
  yyjson_val *root = yyjson_doc_get_root (request.document);
  if (g_strcmp0 (json_get_string (root, "apiVersion"), API_VERSION) != 0)
    return refuse (error, "apiVersion");
  if (g_strcmp0 (json_get_string (root, "kind"), KIND) != 0)
    return refuse (error, "kind");
  yyjson_val *asked = json_get_object (root, "request");
  if (asked == NULL)
    return refuse (error, "request");
  if (!take_request (asked, &request, error))
    return FALSE;
  *out_request = request;
  request.document = NULL;
  return TRUE;
}

static yyjson_mut_doc *
answer (const AdmissionRequest *request, gboolean is_allowed, yyjson_mut_val **out_response)
{
  yyjson_mut_doc *doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_obj_add_str (doc, root, "apiVersion", API_VERSION);
  yyjson_mut_obj_add_str (doc, root, "kind", KIND);
  *out_response = yyjson_mut_obj_add_obj (doc, root, "response");
  yyjson_mut_obj_add_strcpy (doc, *out_response, "uid", request->uid);
  yyjson_mut_obj_add_bool (doc, *out_response, "allowed", is_allowed);
  return doc;
}

char *
admission_allow (const AdmissionRequest *request, yyjson_mut_doc *patch)
{
  yyjson_mut_val *response;
  g_autoptr (yyjson_mut_doc) doc = answer (request, TRUE, &response);
  if (patch != NULL)
    {
      gsize size;
      g_autofree char *text = json_write (patch, &size);
      g_autofree char *encoded = g_base64_encode ((const guint8 *) text, size);
      yyjson_mut_obj_add_str (doc, response, "patchType", "JSONPatch");
      yyjson_mut_obj_add_strcpy (doc, response, "patch", encoded);
    }
  return json_write (doc, NULL);
}

char *
admission_deny (const AdmissionRequest *request, const char *message)
{
  yyjson_mut_val *response;
  g_autoptr (yyjson_mut_doc) doc = answer (request, FALSE, &response);
  yyjson_mut_val *status = yyjson_mut_obj_add_obj (doc, response, "status");
  yyjson_mut_obj_add_str (doc, status, "status", "Failure");
  yyjson_mut_obj_add_str (doc, status, "reason", "Invalid");
  yyjson_mut_obj_add_int (doc, status, "code", UNPROCESSABLE);
  yyjson_mut_obj_add_strcpy (doc, status, "message", message);
  return json_write (doc, NULL);
}
