#include "controllers/source_spec.h"

#include <string.h>

#include "oci/reference.h"
#include "sources/hf_url.h"
#include "sources/ollama_url.h"

#define MAX_TOKEN_BYTES 4096

static const char unsupported[] = "UnsupportedSource", failed[] = "PublicationFailed";

static void set_problem (SourceSpec *self, const char *reason, const char *format, ...) G_GNUC_PRINTF (3, 4);

static void
set_problem (SourceSpec *self, const char *reason, const char *format, ...)
{
  va_list values;
  va_start (values, format);
  g_free (self->problem);
  self->problem = g_strdup_vprintf (format, values);
  self->problem_reason = reason;
  va_end (values);
}

static void
read_url (SourceSpec *self)
{
  g_autoptr (GError) error = NULL;
  g_auto (HfUrl) hub = { 0 };
  g_auto (OllamaUrl) ollama = { 0 };
  self->kind = MODEL_SOURCE_REMOTE;
  if (hf_url_is (self->url, NULL))
    {
      self->type = "HuggingFace";
      hf_url_parse (self->url, NULL, &hub, &error);
    }
  else if (ollama_url_is (self->url, NULL))
    {
      self->type = "Ollama";
      ollama_url_parse (self->url, NULL, &ollama, &error);
    }
  else
    am_fail (&error, AM_ERROR_INVALID_ARGUMENT, unsupported,
             "the URL is neither of Hugging Face (https://huggingface.co/OWNER/REPOSITORY) nor of Ollama's library "
             "(https://ollama.com/library/NAME:TAG)");
  if (error == NULL)
    return;
  self->kind = MODEL_SOURCE_UNSUPPORTED;
  set_problem (self, unsupported, "%s; the source cannot be changed: delete the object and create it anew",
               error->message);
}

static void
read_auth (SourceSpec *self, yyjson_val *reference, const ModelOwner *owner)
{
  const char *namespace = json_get_string (reference, "namespace");
  self->auth_secret = json_get_string (reference, "name");
  if (reference == NULL || self->problem != NULL)
    return;
  if (g_strcmp0 (self->type, "HuggingFace") != 0)
    set_problem (self, failed,
                 "authSecretRef is for models of Hugging Face; delete the object and create it without");
  else if (owner->namespace == NULL)
    set_problem (self, failed, "a ClusterModel cannot name a Secret; delete it and create it without authSecretRef");
  else if (self->auth_secret == NULL || self->auth_secret[0] == '\0')
    set_problem (self, failed, "authSecretRef names no Secret; delete the object and create it with a name");
  else if (namespace != NULL && namespace[0] != '\0' && strcmp (namespace, owner->namespace) != 0)
    set_problem (
      self, failed,
      "authSecretRef names a Secret of namespace %s; it has to be in the Model's own, %s: delete the object "
      "and create it anew",
      namespace, owner->namespace);
}

/* The registry has a limit for names, and the worker would only find it at the end. */
static void
check_name (SourceSpec *self, const ModelOwner *owner)
{
  g_autofree char *repository = model_repository (owner);
  gsize size = strlen (repository);
  if (self->problem == NULL && size > REPOSITORY_NAME_MAX)
    set_problem (self, failed,
                 "the name is too long for the registry, by %" G_GSIZE_FORMAT " characters: delete the object and "
                 "create it with a shorter one",
                 size - REPOSITORY_NAME_MAX);
}

void
source_spec_read (const KubeObject *model, const ModelOwner *owner, SourceSpec *out_spec)
{
  yyjson_val *source = json_get_object (kube_object_spec (model), "source");
  SourceSpec spec = { .url = json_get_string (source, "url") };
  if (spec.url != NULL)
    read_url (&spec);
  else if (json_get_object (source, "upload") != NULL)
    {
      spec.kind = MODEL_SOURCE_UPLOAD;
      spec.type = "Upload";
    }
  else if (json_get_object (source, "catalog") != NULL)
    {
      spec.kind = MODEL_SOURCE_CATALOG;
      spec.catalog = json_get_string (json_get_object (source, "catalog"), "name");
    }
  else
    set_problem (&spec, unsupported, "spec.source has none of url, upload and catalog");
  read_auth (&spec, json_get_object (source, "authSecretRef"), owner);
  check_name (&spec, owner);
  *out_spec = spec;
}

void
source_spec_clear (SourceSpec *self)
{
  g_clear_pointer (&self->problem, g_free);
}

char *
source_token_read (const KubeObject *secret, GError **error)
{
  static const char *const keys[] = { "token", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN" };
  yyjson_val *data = json_get_object (kube_object_root (secret), "data");
  for (gsize i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      gsize size = 0;
      const char *encoded = json_get_string (data, keys[i]);
      g_autofree char *bytes = encoded != NULL ? (char *) g_base64_decode (encoded, &size) : NULL;
      g_autofree char *token = bytes != NULL && size <= MAX_TOKEN_BYTES ? g_strstrip (g_strndup (bytes, size)) : NULL;
      if (token != NULL && token[0] != '\0')
        return g_steal_pointer (&token);
    }
  return am_fail_null (error, AM_ERROR_NOT_FOUND, NULL,
                       "Secret %s has none of the keys token, HF_TOKEN and HUGGING_FACE_HUB_TOKEN",
                       kube_object_name (secret));
}
