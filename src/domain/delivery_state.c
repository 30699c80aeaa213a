#include "domain/delivery_state.h"

#include <string.h>

#include "base/digest.h"
#include "base/json.h"
#include "domain/delivery_names.h"
#include "domain/model_references.h"

#define MAX_BYTES (256 * 1024) /* of all annotations of an object: apimachinery's TotalAnnotationSizeLimitB */
#define SIGNATURE_PREFIX "hmac-"

const char *const delivery_annotation_names[DELIVERY_N_ANNOTATIONS] = {
  [DELIVERED_DIGEST] = DELIVERY_WORD "resolved-digest",
  [DELIVERED_URI] = DELIVERY_WORD "resolved-artifact-uri",
  [DELIVERED_FAMILY] = DELIVERY_WORD "resolved-artifact-family",
  [DELIVERED_MODE] = DELIVERY_WORD "resolved-delivery-mode",
  [DELIVERED_REASON] = DELIVERY_WORD "resolved-delivery-reason",
  [DELIVERED_MODELS] = DELIVERY_WORD "resolved-models",
  [DELIVERED_SIGNATURE] = DELIVERY_WORD "resolved-signature",
};

static const struct {
  const char *name, *reason;
} modes[] = {
  [DELIVERY_SHARED_PVC] = { "SharedPVC", "RWXSharedVolume" },
  [DELIVERY_NODE_CACHE] = { "NodeCache", "NodeCacheRuntime" },
};

const char *
delivery_mode_name (DeliveryMode mode)
{
  return modes[mode].name;
}

static const JsonField model_fields[] = {
  JSON_FIELD (DeliveredModel, name, "name", JSON_STRING, TRUE),
  JSON_FIELD (DeliveredModel, uri, "uri", JSON_STRING, TRUE),
  JSON_FIELD (DeliveredModel, digest, "digest", JSON_STRING, TRUE),
  JSON_FIELD (DeliveredModel, family, "family", JSON_STRING, FALSE),
  JSON_FIELD (DeliveredModel, size_bytes, "sizeBytes", JSON_UINT64, FALSE),
};

static void
model_free (gpointer data)
{
  json_clear (model_fields, G_N_ELEMENTS (model_fields), data);
  g_free (data);
}

void
delivery_state_init (DeliveryState *self, DeliveryMode mode)
{
  self->mode = mode;
  self->models = g_ptr_array_new_with_free_func (model_free);
}

void
delivery_state_add (DeliveryState *self, const DeliveredModel *model)
{
  DeliveredModel *copy = g_new0 (DeliveredModel, 1);
  copy->name = g_strdup (model->name);
  copy->uri = g_strdup (model->uri);
  copy->digest = g_strdup (model->digest);
  copy->family = model->family != NULL && model->family[0] != '\0' ? g_strdup (model->family) : NULL;
  copy->size_bytes = model->size_bytes;
  g_ptr_array_add (self->models, copy);
}

void
delivery_state_clear (DeliveryState *self)
{
  g_clear_pointer (&self->models, g_ptr_array_unref);
}

static gboolean
model_equal (gconstpointer a, gconstpointer b)
{
  const DeliveredModel *one = a, *other = b;
  return g_strcmp0 (one->name, other->name) == 0 && g_strcmp0 (one->uri, other->uri) == 0
         && g_strcmp0 (one->digest, other->digest) == 0 && g_strcmp0 (one->family, other->family) == 0
         && one->size_bytes == other->size_bytes;
}

gboolean
delivery_state_equal (const DeliveryState *a, const DeliveryState *b)
{
  if (a->mode != b->mode || a->models->len != b->models->len)
    return FALSE;
  for (guint i = 0; i < a->models->len; i++)
    if (!model_equal (g_ptr_array_index (a->models, i), g_ptr_array_index (b->models, i)))
      return FALSE;
  return TRUE;
}

void
delivery_annotations_clear (DeliveryAnnotations *self)
{
  for (guint i = 0; i < DELIVERY_N_ANNOTATIONS; i++)
    g_clear_pointer (&self->values[i], g_free);
}

gboolean
delivery_annotations_are_present (const DeliveryAnnotations *self)
{
  static const DeliveryAnnotation telling[] = { DELIVERED_DIGEST, DELIVERED_MODE, DELIVERED_MODELS };
  for (guint i = 0; i < G_N_ELEMENTS (telling); i++)
    if (self->values[telling[i]] != NULL && self->values[telling[i]][0] != '\0')
      return TRUE;
  return FALSE;
}

void
delivery_key (const char *salt, guint8 out_key[DELIVERY_KEY_SIZE])
{
  static const char purpose[] = "ai-models/delivery/v1";
  gsize size = DELIVERY_KEY_SIZE;
  GHmac *hmac = g_hmac_new (G_CHECKSUM_SHA256, (const guchar *) salt, strlen (salt));
  g_hmac_update (hmac, (const guchar *) purpose, -1);
  g_hmac_get_digest (hmac, out_key, &size);
  g_hmac_unref (hmac);
}

static void
add_trimmed (GString *message, const char *text)
{
  g_autofree char *copy = g_strdup (text != NULL ? text : "");
  g_string_append (message, g_strstrip (copy));
}

static char *
signature_of (const DeliveryAnnotations *self, const char *namespace, const guint8 *key)
{
  g_autoptr (GString) message = g_string_new (NULL);
  add_trimmed (message, namespace);
  for (guint i = 0; i < DELIVERED_SIGNATURE; i++)
    {
      g_string_append_c (message, '\0');
      g_string_append (message, delivery_annotation_names[i]);
      g_string_append_c (message, '\0');
      add_trimmed (message, self->values[i]);
    }
  g_autofree char *hex = g_compute_hmac_for_data (G_CHECKSUM_SHA256, key, DELIVERY_KEY_SIZE,
                                                  (const guchar *) message->str, message->len);
  return g_strconcat (SIGNATURE_PREFIX "sha256:", hex, NULL);
}

static char *
models_text (const DeliveryState *self)
{
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *list = yyjson_mut_arr (doc);
  yyjson_mut_doc_set_root (doc, list);
  for (guint i = 0; i < self->models->len; i++)
    json_unbind (doc, yyjson_mut_arr_add_obj (doc, list), model_fields, G_N_ELEMENTS (model_fields),
                 g_ptr_array_index (self->models, i));
  return json_write (doc, NULL);
}

void
delivery_state_write (const DeliveryState *self, const char *namespace, const guint8 key[DELIVERY_KEY_SIZE],
                      DeliveryAnnotations *out_annotations)
{
  const DeliveredModel *primary = g_ptr_array_index (self->models, 0);
  *out_annotations = (DeliveryAnnotations){ .values = {
                                              [DELIVERED_DIGEST] = g_strdup (primary->digest),
                                              [DELIVERED_URI] = g_strdup (primary->uri),
                                              [DELIVERED_FAMILY] = g_strdup (primary->family),
                                              [DELIVERED_MODE] = g_strdup (modes[self->mode].name),
                                              [DELIVERED_REASON] = g_strdup (modes[self->mode].reason),
                                              [DELIVERED_MODELS] = models_text (self),
                                            } };
  if (key != NULL)
    out_annotations->values[DELIVERED_SIGNATURE] = signature_of (out_annotations, namespace, key);
}

static gboolean
bad (GError **error, const char *what)
{
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "this is no delivery state: %s", what);
}

static gboolean
read_mode (const char *name, DeliveryMode *out_mode, GError **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    if (g_strcmp0 (name, modes[i].name) == 0)
      {
        *out_mode = (DeliveryMode) i;
        return TRUE;
      }
  return bad (error, "its mode is not known");
}

static gboolean
read_model (yyjson_val *value, DeliveryState *state, GError **error)
{
  Digest digest;
  DeliveredModel *model = g_new0 (DeliveredModel, 1);
  g_ptr_array_add (state->models, model);
  return json_bind (value, model_fields, G_N_ELEMENTS (model_fields), model, error)
         && digest_parse (model->digest, &digest, error);
}

static gboolean
read_models (const char *text, DeliveryState *state, GError **error)
{
  size_t index, n;
  yyjson_val *value;
  g_autoptr (yyjson_doc) doc = json_parse (text, strlen (text), MAX_BYTES, JSON_STRICT, error);
  yyjson_val *list = yyjson_doc_get_root (doc);
  if (doc == NULL)
    return FALSE;
  if (!yyjson_is_arr (list) || yyjson_arr_size (list) == 0 || yyjson_arr_size (list) > MODEL_REFERENCES_MAX)
    return bad (error, "it has no list of models");
  yyjson_arr_foreach (list, index, n, value)
  {
    if (!read_model (value, state, error))
      return FALSE;
  }
  return TRUE;
}

/* All annotations but the signature are what the state is written as. */
static gboolean
is_written_so (const DeliveryState *state, const DeliveryAnnotations *annotations)
{
  g_auto (DeliveryAnnotations) written = { 0 };
  delivery_state_write (state, "", NULL, &written);
  for (guint i = 0; i < DELIVERED_SIGNATURE; i++)
    if (g_strcmp0 (written.values[i], annotations->values[i]) != 0)
      return FALSE;
  return TRUE;
}

gboolean
delivery_state_read (const DeliveryAnnotations *annotations, DeliveryState *out_state, GError **error)
{
  DeliveryMode mode;
  const char *models = annotations->values[DELIVERED_MODELS];
  if (!read_mode (annotations->values[DELIVERED_MODE], &mode, error))
    return FALSE;
  if (models == NULL)
    return bad (error, "it has no list of models");
  g_auto (DeliveryState) state = { 0 };
  delivery_state_init (&state, mode);
  if (!read_models (models, &state, error))
    return FALSE;
  if (!is_written_so (&state, annotations))
    return bad (error, "its annotations contradict one another");
  *out_state = state;
  state = (DeliveryState){ 0 };
  return TRUE;
}

gboolean
delivery_annotations_are_signed (const DeliveryAnnotations *self, const char *namespace,
                                 const guint8 key[DELIVERY_KEY_SIZE])
{
  Digest ours, theirs;
  const char *signature = self->values[DELIVERED_SIGNATURE];
  g_autofree char *expected = signature_of (self, namespace, key);
  return signature != NULL && g_str_has_prefix (signature, SIGNATURE_PREFIX)
         && digest_parse (signature + strlen (SIGNATURE_PREFIX), &theirs, NULL)
         && digest_parse (expected + strlen (SIGNATURE_PREFIX), &ours, NULL) && digest_equal_secret (&ours, &theirs);
}
