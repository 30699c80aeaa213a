#include "controllers/worker_pod.h"

#include "controllers/object_draft.h"

#define GRACE_S 30
#define GENERATION_ANNOTATION MODEL_ANNOTATION "source-worker-owner-generation"
#define RBAC_GROUP "rbac.authorization.k8s.io"

static ObjectDraft
draft_new (const char *prefix, const ModelOwner *owner, const char *app)
{
  g_autofree char *name = model_object_name (prefix, owner->uid);
  ObjectDraft draft = object_draft_new (name);
  model_owner_mark (draft.doc, draft.metadata, owner, app);
  return draft;
}

static void
add_owner_options (const ObjectDraft *draft, yyjson_mut_val *args, const WorkerJob *job)
{
  g_autofree char *generation = g_strdup_printf ("%" G_GINT64_FORMAT, job->generation);
  draft_option (draft, args, "--owner-kind", job->owner.kind);
  draft_option (draft, args, "--owner-namespace", job->owner.namespace);
  draft_option (draft, args, "--owner-name", job->owner.name);
  draft_option (draft, args, "--owner-uid", job->owner.uid);
  draft_option (draft, args, "--owner-generation", generation);
}

static void
add_arguments (const ObjectDraft *draft, yyjson_mut_val *container, const ControllerSettings *settings,
               const WorkerJob *job)
{
  yyjson_mut_val *args = yyjson_mut_obj_add_arr (draft->doc, container, "args");
  g_autofree char *repository = model_repository (&job->owner);
  g_autofree char *limit = g_strdup_printf ("%" G_GUINT64_FORMAT, settings->capacity_limit_bytes);
  draft_word (draft, args, "publish");
  add_owner_options (draft, args, job);
  draft_option (draft, args, "--source", job->url);
  draft_option (draft, args, "--revision", job->url != NULL ? job->revision : NULL);
  draft_option (draft, args, "--token-file", job->has_token ? WORKER_TOKEN_DIR "/token" : NULL);
  draft_option (draft, args, "--staged-file", job->staged_file);
  draft_option (draft, args, "--staging-store", job->staged_file != NULL ? settings->staging_store : NULL);
  draft_option (draft, args, "--staging-keys-dir",
                job->staged_file != NULL && settings->artifacts_secret != NULL ? WORKER_ARTIFACTS_KEYS_DIR : NULL);
  draft_option (draft, args, "--registry", settings->registry);
  draft_option (draft, args, "--registry-ca-file",
                settings->registry_ca_secret != NULL ? WORKER_REGISTRY_CA_DIR "/ca.crt" : NULL);
  if (settings->registry_plain_http)
    draft_word (draft, args, "--registry-plain-http");
  draft_option (draft, args, "--registry-login-dir", WORKER_LOGIN_DIR);
  draft_option (draft, args, "--repository", repository);
  draft_option (draft, args, "--namespace", settings->namespace);
  draft_option (draft, args, "--accounting", settings->has_accounting ? ACCOUNTING_CONFIG_MAP : NULL);
  draft_option (draft, args, "--capacity-limit",
                settings->has_accounting && settings->capacity_limit_bytes > 0 ? limit : NULL);
  draft_option (draft, args, "--termination-file", "/dev/termination-log");
  draft_option (draft, args, "--log-format", "json");
}

static void
add_variable (const ObjectDraft *draft, yyjson_mut_val *env, const char *name, const char *value)
{
  if (value == NULL)
    return;
  yyjson_mut_val *variable = yyjson_mut_arr_add_obj (draft->doc, env);
  draft_text (draft, variable, "name", name);
  draft_text (draft, variable, "value", value);
}

static void
add_secret_variable (const ObjectDraft *draft, yyjson_mut_val *env, const char *name, const char *secret,
                     const char *key)
{
  yyjson_mut_val *variable = yyjson_mut_arr_add_obj (draft->doc, env);
  draft_text (draft, variable, "name", name);
  yyjson_mut_val *reference = draft_object (draft, draft_object (draft, variable, "valueFrom"), "secretKeyRef");
  draft_text (draft, reference, "name", secret);
  draft_text (draft, reference, "key", key);
}

/* The registry and the API server are never behind the proxy. */
static void
add_proxy (const ObjectDraft *draft, yyjson_mut_val *env, const ControllerSettings *settings)
{
  if (settings->https_proxy == NULL)
    return;
  g_auto (GStrv) registry = g_strsplit (settings->registry, ":", 2);
  g_autofree char *without = g_strdup_printf ("%s%s%s,$(KUBERNETES_SERVICE_HOST)",
                                              settings->no_proxy != NULL ? settings->no_proxy : "",
                                              settings->no_proxy != NULL ? "," : "", registry[0]);
  add_variable (draft, env, "HTTPS_PROXY", settings->https_proxy);
  add_variable (draft, env, "NO_PROXY", without);
}

static void
add_environment (const ObjectDraft *draft, yyjson_mut_val *container, const ControllerSettings *settings,
                 const WorkerJob *job)
{
  yyjson_mut_val *env = yyjson_mut_obj_add_arr (draft->doc, container, "env");
  add_variable (draft, env, "HF_ENDPOINT", settings->hf_endpoint);
  add_variable (draft, env, "OLLAMA_REGISTRY", settings->ollama_registry);
  add_variable (draft, env, "SSL_CERT_FILE",
                settings->sources_ca_config_map != NULL ? WORKER_SOURCES_CA_DIR "/ca.crt" : NULL);
  add_proxy (draft, env, settings);
  if (job->staged_file == NULL || settings->artifacts_secret == NULL)
    return;
  add_secret_variable (draft, env, "AWS_ACCESS_KEY_ID", settings->artifacts_secret, "accessKey");
  add_secret_variable (draft, env, "AWS_SECRET_ACCESS_KEY", settings->artifacts_secret, "secretKey");
  add_variable (draft, env, "AWS_CA_BUNDLE",
                settings->artifacts_ca_secret != NULL ? WORKER_ARTIFACTS_CA_DIR "/ca.crt" : NULL);
}

static void
add_volumes (const ObjectDraft *draft, yyjson_mut_val *spec, yyjson_mut_val *container,
             const ControllerSettings *settings, const WorkerJob *job)
{
  g_autofree char *auth = job->has_token ? model_object_name (WORKER_AUTH_PREFIX, job->owner.uid) : NULL;
  DraftVolumes volumes = draft_volumes (draft, spec, container);
  draft_volume (&volumes, "tmp", DRAFT_EMPTY_DIR, NULL, "/tmp");
  draft_volume (&volumes, "registry-login", DRAFT_SECRET, settings->registry_write_secret, WORKER_LOGIN_DIR);
  draft_volume (&volumes, "registry-ca", DRAFT_SECRET, settings->registry_ca_secret, WORKER_REGISTRY_CA_DIR);
  draft_volume (&volumes, "source-token", DRAFT_SECRET, auth, WORKER_TOKEN_DIR);
  draft_volume (&volumes, "sources-ca", DRAFT_CONFIG_MAP, settings->sources_ca_config_map, WORKER_SOURCES_CA_DIR);
  if (job->staged_file == NULL)
    return;
  draft_volume (&volumes, "artifacts-ca", DRAFT_SECRET, settings->artifacts_ca_secret, WORKER_ARTIFACTS_CA_DIR);
  draft_volume (&volumes, "artifacts-keys", DRAFT_SECRET, settings->artifacts_secret, WORKER_ARTIFACTS_KEYS_DIR);
}

static void
add_container (const ObjectDraft *draft, yyjson_mut_val *spec, const ControllerSettings *settings,
               const WorkerJob *job)
{
  yyjson_mut_val *container = draft_container (draft, spec, "publish", settings->worker_image);
  add_arguments (draft, container, settings, job);
  add_environment (draft, container, settings, job);
  draft_resources (draft, container, settings->worker_requests, settings->worker_limits);
  add_volumes (draft, spec, container, settings, job);
}

yyjson_mut_doc *
worker_pod_document (const ControllerSettings *settings, const WorkerJob *job)
{
  ObjectDraft draft = draft_new (WORKER_PREFIX, &job->owner, WORKER_APP);
  g_autofree char *generation = g_strdup_printf ("%" G_GINT64_FORMAT, job->generation);
  draft_text (&draft, metadata_map (draft.doc, draft.metadata, "annotations"), GENERATION_ANNOTATION, generation);
  yyjson_mut_val *spec = draft_object (&draft, draft.root, "spec");
  draft_text (&draft, spec, "restartPolicy", "Never");
  draft_text (&draft, spec, "serviceAccountName", settings->worker_account);
  yyjson_mut_obj_add_int (draft.doc, spec, "terminationGracePeriodSeconds", GRACE_S);
  draft_pull_secret (&draft, spec, settings->worker_pull_secret);
  add_container (&draft, spec, settings, job);
  return draft.doc;
}

static void
add_rule (const ObjectDraft *draft, yyjson_mut_val *rules, const char *resource, const char *name)
{
  static const char *const verbs[] = { "get", "update" };
  yyjson_mut_val *rule = yyjson_mut_arr_add_obj (draft->doc, rules);
  draft_word (draft, yyjson_mut_obj_add_arr (draft->doc, rule, "apiGroups"), "");
  draft_word (draft, yyjson_mut_obj_add_arr (draft->doc, rule, "resources"), resource);
  draft_word (draft, yyjson_mut_obj_add_arr (draft->doc, rule, "resourceNames"), name);
  yyjson_mut_val *list = yyjson_mut_obj_add_arr (draft->doc, rule, "verbs");
  for (gsize i = 0; i < G_N_ELEMENTS (verbs); i++)
    draft_word (draft, list, verbs[i]);
}

yyjson_mut_doc *
worker_role_document (const ControllerSettings *settings, const ModelOwner *owner)
{
  ObjectDraft draft = draft_new (WORKER_PREFIX, owner, WORKER_APP);
  g_autofree char *state = model_object_name (WORKER_STATE_PREFIX, owner->uid);
  yyjson_mut_val *rules = yyjson_mut_obj_add_arr (draft.doc, draft.root, "rules");
  add_rule (&draft, rules, "secrets", state);
  if (settings->has_accounting)
    add_rule (&draft, rules, "configmaps", ACCOUNTING_CONFIG_MAP);
  return draft.doc;
}

yyjson_mut_doc *
worker_role_binding_document (const ControllerSettings *settings, const ModelOwner *owner)
{
  ObjectDraft draft = draft_new (WORKER_PREFIX, owner, WORKER_APP);
  g_autofree char *name = model_object_name (WORKER_PREFIX, owner->uid);
  yyjson_mut_val *role = draft_object (&draft, draft.root, "roleRef");
  draft_text (&draft, role, "apiGroup", RBAC_GROUP);
  draft_text (&draft, role, "kind", role_kind.kind);
  draft_text (&draft, role, "name", name);
  yyjson_mut_val *subjects = yyjson_mut_obj_add_arr (draft.doc, draft.root, "subjects");
  yyjson_mut_val *subject = yyjson_mut_arr_add_obj (draft.doc, subjects);
  draft_text (&draft, subject, "kind", "ServiceAccount");
  draft_text (&draft, subject, "name", settings->worker_account);
  draft_text (&draft, subject, "namespace", settings->namespace);
  return draft.doc;
}

yyjson_mut_doc *
worker_state_document (const ModelOwner *owner, gint64 generation)
{
  ObjectDraft draft = draft_new (WORKER_STATE_PREFIX, owner, WORKER_STATE_APP);
  g_autofree char *state = g_strdup_printf (
    "{\"phase\":\"Idle\",\"stage\":\"Idle\",\"ownerGeneration\":%" G_GINT64_FORMAT "}", generation);
  draft_data (&draft, "state.json", state);
  return draft.doc;
}

yyjson_mut_doc *
worker_auth_document (const ModelOwner *owner, const char *token)
{
  ObjectDraft draft = draft_new (WORKER_AUTH_PREFIX, owner, WORKER_APP);
  draft_data (&draft, "token", token);
  return draft.doc;
}
