#include "controllers/worker_pod.h"

#include <string.h>

#define WORKER_ID 64535 /* user and group */
#define SECRET_MODE 0440
#define GRACE_S 30
#define GENERATION_ANNOTATION MODEL_ANNOTATION "source-worker-owner-generation"
#define RBAC_GROUP "rbac.authorization.k8s.io"

/* A document that is being written. */
typedef struct {
  yyjson_mut_doc *doc;
  yyjson_mut_val *root, *metadata;
} Draft;

static Draft
draft_new (const char *prefix, const ModelOwner *owner, const char *app)
{
  Draft draft = { .doc = yyjson_mut_doc_new (NULL) };
  g_autofree char *name = model_object_name (prefix, owner->uid);
  draft.root = yyjson_mut_obj (draft.doc);
  yyjson_mut_doc_set_root (draft.doc, draft.root);
  draft.metadata = yyjson_mut_obj_add_obj (draft.doc, draft.root, "metadata");
  yyjson_mut_obj_add_strcpy (draft.doc, draft.metadata, "name", name);
  model_owner_mark (draft.doc, draft.metadata, owner, app);
  return draft;
}

static void
add_text (const Draft *draft, yyjson_mut_val *object, const char *name, const char *value)
{
  if (value != NULL)
    yyjson_mut_obj_add_strcpy (draft->doc, object, name, value);
}

static yyjson_mut_val *
add_object (const Draft *draft, yyjson_mut_val *object, const char *name)
{
  return yyjson_mut_obj_add_obj (draft->doc, object, name);
}

/* Calls for each NAME=VALUE; FALSE when one is none. */
static gboolean
each_resource (const char *text, void (*func) (const char *name, const char *value, gpointer data), gpointer data)
{
  g_auto (GStrv) pairs = g_strsplit (text, ",", -1);
  for (guint i = 0; pairs[i] != NULL; i++)
    {
      char *equals = strchr (pairs[i], '=');
      if (equals == NULL || equals == pairs[i] || equals[1] == '\0')
        return FALSE;
      *equals = '\0';
      if (func != NULL)
        func (pairs[i], equals + 1, data);
    }
  return pairs[0] != NULL;
}

gboolean
worker_resources_check (const char *text, GError **error)
{
  return each_resource (text, NULL, NULL)
         || am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "\"%s\" is not NAME=QUANTITY,...", text);
}

typedef struct {
  const Draft *draft;
  yyjson_mut_val *object;
} Resources;

static void
add_resource (const char *name, const char *value, gpointer data)
{
  const Resources *self = data;
  yyjson_mut_val *key = yyjson_mut_strcpy (self->draft->doc, name);
  yyjson_mut_obj_add (self->object, key, yyjson_mut_strcpy (self->draft->doc, value));
}

static void
add_resources (const Draft *draft, yyjson_mut_val *container, const ControllerSettings *settings)
{
  yyjson_mut_val *resources = add_object (draft, container, "resources");
  Resources requests = { draft, add_object (draft, resources, "requests") };
  Resources limits = { draft, add_object (draft, resources, "limits") };
  each_resource (settings->worker_requests, add_resource, &requests);
  each_resource (settings->worker_limits, add_resource, &limits);
}

static void
add_word (const Draft *draft, yyjson_mut_val *list, const char *word)
{
  yyjson_mut_arr_add_strcpy (draft->doc, list, word);
}

/* An option with its value; NULL value: nothing. */
static void
add_option (const Draft *draft, yyjson_mut_val *list, const char *name, const char *value)
{
  if (value == NULL)
    return;
  add_word (draft, list, name);
  add_word (draft, list, value);
}

static void
add_owner_options (const Draft *draft, yyjson_mut_val *args, const WorkerJob *job)
{
  g_autofree char *generation = g_strdup_printf ("%" G_GINT64_FORMAT, job->generation);
  add_option (draft, args, "--owner-kind", job->owner.kind);
  add_option (draft, args, "--owner-namespace", job->owner.namespace);
  add_option (draft, args, "--owner-name", job->owner.name);
  add_option (draft, args, "--owner-uid", job->owner.uid);
  add_option (draft, args, "--owner-generation", generation);
}

static void
add_arguments (const Draft *draft, yyjson_mut_val *container, const ControllerSettings *settings,
               const WorkerJob *job)
{
  yyjson_mut_val *args = yyjson_mut_obj_add_arr (draft->doc, container, "args");
  g_autofree char *repository = model_repository (&job->owner);
  g_autofree char *limit = g_strdup_printf ("%" G_GUINT64_FORMAT, settings->capacity_limit_bytes);
  add_word (draft, args, "publish");
  add_owner_options (draft, args, job);
  add_option (draft, args, "--source", job->url);
  add_option (draft, args, "--revision", job->url != NULL ? job->revision : NULL);
  add_option (draft, args, "--token-file", job->has_token ? WORKER_TOKEN_DIR "/token" : NULL);
  add_option (draft, args, "--staged-file", job->staged_file);
  add_option (draft, args, "--staging-store", job->staged_file != NULL ? settings->staging_store : NULL);
  add_option (draft, args, "--registry", settings->registry);
  add_option (draft, args, "--registry-ca-file",
              settings->registry_ca_secret != NULL ? WORKER_REGISTRY_CA_DIR "/ca.crt" : NULL);
  if (settings->registry_plain_http)
    add_word (draft, args, "--registry-plain-http");
  add_option (draft, args, "--registry-login-dir", WORKER_LOGIN_DIR);
  add_option (draft, args, "--repository", repository);
  add_option (draft, args, "--namespace", settings->namespace);
  add_option (draft, args, "--accounting", settings->has_accounting ? ACCOUNTING_CONFIG_MAP : NULL);
  add_option (draft, args, "--capacity-limit",
              settings->has_accounting && settings->capacity_limit_bytes > 0 ? limit : NULL);
  add_option (draft, args, "--termination-file", "/dev/termination-log");
  add_option (draft, args, "--log-format", "json");
}

static void
add_variable (const Draft *draft, yyjson_mut_val *env, const char *name, const char *value)
{
  if (value == NULL)
    return;
  yyjson_mut_val *variable = yyjson_mut_arr_add_obj (draft->doc, env);
  add_text (draft, variable, "name", name);
  add_text (draft, variable, "value", value);
}

static void
add_secret_variable (const Draft *draft, yyjson_mut_val *env, const char *name, const char *secret, const char *key)
{
  yyjson_mut_val *variable = yyjson_mut_arr_add_obj (draft->doc, env);
  add_text (draft, variable, "name", name);
  yyjson_mut_val *reference = add_object (draft, add_object (draft, variable, "valueFrom"), "secretKeyRef");
  add_text (draft, reference, "name", secret);
  add_text (draft, reference, "key", key);
}

/* The registry and the API server are never behind the proxy. */
static void
add_proxy (const Draft *draft, yyjson_mut_val *env, const ControllerSettings *settings)
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
add_environment (const Draft *draft, yyjson_mut_val *container, const ControllerSettings *settings,
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

typedef struct {
  const Draft *draft;
  yyjson_mut_val *volumes, *mounts;
} Volumes;

/* A volume and where it is mounted. `kind` "secret", "configMap", "emptyDir"; `source` NULL: none. */
static void
add_volume (const Volumes *self, const char *name, const char *kind, const char *source, const char *path)
{
  const Draft *draft = self->draft;
  gboolean is_secret = strcmp (kind, "secret") == 0, is_empty = strcmp (kind, "emptyDir") == 0;
  if (source == NULL && !is_empty)
    return;
  yyjson_mut_val *volume = yyjson_mut_arr_add_obj (draft->doc, self->volumes);
  add_text (draft, volume, "name", name);
  yyjson_mut_val *content = add_object (draft, volume, kind);
  add_text (draft, content, is_secret ? "secretName" : "name", source);
  if (is_secret)
    yyjson_mut_obj_add_int (draft->doc, content, "defaultMode", SECRET_MODE);
  yyjson_mut_val *mount = yyjson_mut_arr_add_obj (draft->doc, self->mounts);
  add_text (draft, mount, "name", name);
  add_text (draft, mount, "mountPath", path);
  if (!is_empty)
    yyjson_mut_obj_add_bool (draft->doc, mount, "readOnly", TRUE);
}

static void
add_volumes (const Draft *draft, yyjson_mut_val *spec, yyjson_mut_val *container, const ControllerSettings *settings,
             const WorkerJob *job)
{
  g_autofree char *auth = job->has_token ? model_object_name (WORKER_AUTH_PREFIX, job->owner.uid) : NULL;
  Volumes volumes = { draft, yyjson_mut_obj_add_arr (draft->doc, spec, "volumes"),
                      yyjson_mut_obj_add_arr (draft->doc, container, "volumeMounts") };
  add_volume (&volumes, "tmp", "emptyDir", NULL, "/tmp");
  add_volume (&volumes, "registry-login", "secret", settings->registry_write_secret, WORKER_LOGIN_DIR);
  add_volume (&volumes, "registry-ca", "secret", settings->registry_ca_secret, WORKER_REGISTRY_CA_DIR);
  add_volume (&volumes, "source-token", "secret", auth, WORKER_TOKEN_DIR);
  add_volume (&volumes, "sources-ca", "configMap", settings->sources_ca_config_map, WORKER_SOURCES_CA_DIR);
  if (job->staged_file != NULL)
    add_volume (&volumes, "artifacts-ca", "secret", settings->artifacts_ca_secret, WORKER_ARTIFACTS_CA_DIR);
}

/* Of the Pod security standard "restricted", and a root file system nobody writes to. */
static void
add_security (const Draft *draft, yyjson_mut_val *spec, yyjson_mut_val *container)
{
  yyjson_mut_val *pod = add_object (draft, spec, "securityContext");
  yyjson_mut_obj_add_bool (draft->doc, pod, "runAsNonRoot", TRUE);
  yyjson_mut_obj_add_int (draft->doc, pod, "runAsUser", WORKER_ID);
  yyjson_mut_obj_add_int (draft->doc, pod, "runAsGroup", WORKER_ID);
  yyjson_mut_obj_add_int (draft->doc, pod, "fsGroup", WORKER_ID);
  add_text (draft, add_object (draft, pod, "seccompProfile"), "type", "RuntimeDefault");
  yyjson_mut_val *own = add_object (draft, container, "securityContext");
  yyjson_mut_obj_add_bool (draft->doc, own, "allowPrivilegeEscalation", FALSE);
  yyjson_mut_obj_add_bool (draft->doc, own, "readOnlyRootFilesystem", TRUE);
  yyjson_mut_val *capabilities = add_object (draft, own, "capabilities");
  yyjson_mut_arr_add_str (draft->doc, yyjson_mut_obj_add_arr (draft->doc, capabilities, "drop"), "ALL");
}

static void
add_container (const Draft *draft, yyjson_mut_val *spec, const ControllerSettings *settings, const WorkerJob *job)
{
  yyjson_mut_val *containers = yyjson_mut_obj_add_arr (draft->doc, spec, "containers");
  yyjson_mut_val *container = yyjson_mut_arr_add_obj (draft->doc, containers);
  add_text (draft, container, "name", "publish");
  add_text (draft, container, "image", settings->worker_image);
  add_text (draft, container, "imagePullPolicy", "IfNotPresent");
  add_text (draft, container, "terminationMessagePolicy", "File");
  add_arguments (draft, container, settings, job);
  add_environment (draft, container, settings, job);
  add_resources (draft, container, settings);
  add_security (draft, spec, container);
  add_volumes (draft, spec, container, settings, job);
}

yyjson_mut_doc *
worker_pod_document (const ControllerSettings *settings, const WorkerJob *job)
{
  Draft draft = draft_new (WORKER_PREFIX, &job->owner, WORKER_APP);
  g_autofree char *generation = g_strdup_printf ("%" G_GINT64_FORMAT, job->generation);
  add_text (&draft, metadata_map (draft.doc, draft.metadata, "annotations"), GENERATION_ANNOTATION, generation);
  yyjson_mut_val *spec = add_object (&draft, draft.root, "spec");
  add_text (&draft, spec, "restartPolicy", "Never");
  add_text (&draft, spec, "serviceAccountName", settings->worker_account);
  yyjson_mut_obj_add_bool (draft.doc, spec, "enableServiceLinks", FALSE);
  yyjson_mut_obj_add_int (draft.doc, spec, "terminationGracePeriodSeconds", GRACE_S);
  if (settings->worker_pull_secret != NULL)
    {
      yyjson_mut_val *list = yyjson_mut_obj_add_arr (draft.doc, spec, "imagePullSecrets");
      add_text (&draft, yyjson_mut_arr_add_obj (draft.doc, list), "name", settings->worker_pull_secret);
    }
  add_container (&draft, spec, settings, job);
  return draft.doc;
}

static void
add_rule (const Draft *draft, yyjson_mut_val *rules, const char *resource, const char *name)
{
  static const char *const verbs[] = { "get", "update" };
  yyjson_mut_val *rule = yyjson_mut_arr_add_obj (draft->doc, rules);
  add_word (draft, yyjson_mut_obj_add_arr (draft->doc, rule, "apiGroups"), "");
  add_word (draft, yyjson_mut_obj_add_arr (draft->doc, rule, "resources"), resource);
  add_word (draft, yyjson_mut_obj_add_arr (draft->doc, rule, "resourceNames"), name);
  yyjson_mut_val *list = yyjson_mut_obj_add_arr (draft->doc, rule, "verbs");
  for (gsize i = 0; i < G_N_ELEMENTS (verbs); i++)
    add_word (draft, list, verbs[i]);
}

yyjson_mut_doc *
worker_role_document (const ControllerSettings *settings, const ModelOwner *owner)
{
  Draft draft = draft_new (WORKER_PREFIX, owner, WORKER_APP);
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
  Draft draft = draft_new (WORKER_PREFIX, owner, WORKER_APP);
  g_autofree char *name = model_object_name (WORKER_PREFIX, owner->uid);
  yyjson_mut_val *role = add_object (&draft, draft.root, "roleRef");
  add_text (&draft, role, "apiGroup", RBAC_GROUP);
  add_text (&draft, role, "kind", role_kind.kind);
  add_text (&draft, role, "name", name);
  yyjson_mut_val *subjects = yyjson_mut_obj_add_arr (draft.doc, draft.root, "subjects");
  yyjson_mut_val *subject = yyjson_mut_arr_add_obj (draft.doc, subjects);
  add_text (&draft, subject, "kind", "ServiceAccount");
  add_text (&draft, subject, "name", settings->worker_account);
  add_text (&draft, subject, "namespace", settings->namespace);
  return draft.doc;
}

static void
add_data (const Draft *draft, const char *key, const char *text)
{
  g_autofree char *encoded = g_base64_encode ((const guchar *) text, strlen (text));
  add_text (draft, metadata_map (draft->doc, draft->root, "data"), key, encoded);
}

yyjson_mut_doc *
worker_state_document (const ModelOwner *owner, gint64 generation)
{
  Draft draft = draft_new (WORKER_STATE_PREFIX, owner, WORKER_STATE_APP);
  g_autofree char *state = g_strdup_printf (
    "{\"phase\":\"Idle\",\"stage\":\"Idle\",\"ownerGeneration\":%" G_GINT64_FORMAT "}", generation);
  add_data (&draft, "state.json", state);
  return draft.doc;
}

yyjson_mut_doc *
worker_auth_document (const ModelOwner *owner, const char *token)
{
  Draft draft = draft_new (WORKER_AUTH_PREFIX, owner, WORKER_APP);
  add_data (&draft, "token", token);
  return draft.doc;
}
