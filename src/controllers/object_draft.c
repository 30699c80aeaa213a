#include "controllers/object_draft.h"

#include <string.h>

#include "cluster/module_objects.h"

#define PROGRAM_ID 64535 /* user and group */
#define SECRET_MODE 0440

ObjectDraft
object_draft_new (const char *name)
{
  ObjectDraft self = { .doc = yyjson_mut_doc_new (NULL) };
  self.root = yyjson_mut_obj (self.doc);
  yyjson_mut_doc_set_root (self.doc, self.root);
  self.metadata = yyjson_mut_obj_add_obj (self.doc, self.root, "metadata");
  yyjson_mut_obj_add_strcpy (self.doc, self.metadata, "name", name);
  return self;
}

void
draft_text (const ObjectDraft *self, yyjson_mut_val *object, const char *name, const char *value)
{
  if (value == NULL)
    return;
  yyjson_mut_val *key = yyjson_mut_strcpy (self->doc, name);
  yyjson_mut_obj_put (object, key, yyjson_mut_strcpy (self->doc, value));
}

yyjson_mut_val *
draft_object (const ObjectDraft *self, yyjson_mut_val *object, const char *name)
{
  return yyjson_mut_obj_add_obj (self->doc, object, name);
}

void
draft_data (const ObjectDraft *self, const char *key, const char *text)
{
  if (text == NULL)
    return;
  g_autofree char *encoded = g_base64_encode ((const guchar *) text, strlen (text));
  draft_text (self, metadata_map (self->doc, self->root, "data"), key, encoded);
}

void
draft_owner (const ObjectDraft *self, const char *api_version, const char *kind, const char *name, const char *uid)
{
  yyjson_mut_val *owners = yyjson_mut_obj_get (self->metadata, "ownerReferences");
  if (owners == NULL)
    owners = yyjson_mut_obj_add_arr (self->doc, self->metadata, "ownerReferences");
  yyjson_mut_val *owner = yyjson_mut_arr_add_obj (self->doc, owners);
  draft_text (self, owner, "apiVersion", api_version);
  draft_text (self, owner, "kind", kind);
  draft_text (self, owner, "name", name);
  draft_text (self, owner, "uid", uid);
  yyjson_mut_obj_add_bool (self->doc, owner, "controller", FALSE);
  yyjson_mut_obj_add_bool (self->doc, owner, "blockOwnerDeletion", FALSE);
}

void
draft_word (const ObjectDraft *self, yyjson_mut_val *list, const char *word)
{
  yyjson_mut_arr_add_strcpy (self->doc, list, word);
}

void
draft_option (const ObjectDraft *self, yyjson_mut_val *list, const char *name, const char *value)
{
  if (value == NULL)
    return;
  draft_word (self, list, name);
  draft_word (self, list, value);
}

void
draft_option_u64 (const ObjectDraft *self, yyjson_mut_val *list, const char *name, guint64 value)
{
  g_autofree char *text = g_strdup_printf ("%" G_GUINT64_FORMAT, value);
  draft_option (self, list, name, text);
}

static void
add_pod_security (const ObjectDraft *self, yyjson_mut_val *spec)
{
  yyjson_mut_val *pod = draft_object (self, spec, "securityContext");
  yyjson_mut_obj_add_bool (self->doc, pod, "runAsNonRoot", TRUE);
  yyjson_mut_obj_add_int (self->doc, pod, "runAsUser", PROGRAM_ID);
  yyjson_mut_obj_add_int (self->doc, pod, "runAsGroup", PROGRAM_ID);
  yyjson_mut_obj_add_int (self->doc, pod, "fsGroup", PROGRAM_ID);
  draft_text (self, pod, "fsGroupChangePolicy", "OnRootMismatch"); /* a large volume is not walked each time */
  draft_text (self, draft_object (self, pod, "seccompProfile"), "type", "RuntimeDefault");
}

static void
add_container_security (const ObjectDraft *self, yyjson_mut_val *container)
{
  yyjson_mut_val *own = draft_object (self, container, "securityContext");
  yyjson_mut_obj_add_bool (self->doc, own, "allowPrivilegeEscalation", FALSE);
  yyjson_mut_obj_add_bool (self->doc, own, "readOnlyRootFilesystem", TRUE);
  yyjson_mut_val *capabilities = draft_object (self, own, "capabilities");
  yyjson_mut_arr_add_str (self->doc, yyjson_mut_obj_add_arr (self->doc, capabilities, "drop"), "ALL");
}

yyjson_mut_val *
draft_container (const ObjectDraft *self, yyjson_mut_val *pod_spec, const char *name, const char *image)
{
  yyjson_mut_val *containers = yyjson_mut_obj_add_arr (self->doc, pod_spec, "containers");
  yyjson_mut_val *container = yyjson_mut_arr_add_obj (self->doc, containers);
  draft_text (self, container, "name", name);
  draft_text (self, container, "image", image);
  draft_text (self, container, "imagePullPolicy", "IfNotPresent");
  draft_text (self, container, "terminationMessagePolicy", "File");
  yyjson_mut_obj_add_bool (self->doc, pod_spec, "enableServiceLinks", FALSE);
  add_pod_security (self, pod_spec);
  add_container_security (self, container);
  return container;
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
draft_resources_check (const char *text, GError **error)
{
  return each_resource (text, NULL, NULL)
         || am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "\"%s\" is not NAME=QUANTITY,...", text);
}

typedef struct {
  const ObjectDraft *draft;
  yyjson_mut_val *object;
} Resources;

static void
add_resource (const char *name, const char *value, gpointer data)
{
  const Resources *self = data;
  draft_text (self->draft, self->object, name, value);
}

void
draft_resources (const ObjectDraft *self, yyjson_mut_val *container, const char *requests, const char *limits)
{
  yyjson_mut_val *resources = draft_object (self, container, "resources");
  Resources least = { self, draft_object (self, resources, "requests") };
  Resources most = { self, draft_object (self, resources, "limits") };
  each_resource (requests, add_resource, &least);
  each_resource (limits, add_resource, &most);
}

void
draft_pull_secret (const ObjectDraft *self, yyjson_mut_val *pod_spec, const char *secret)
{
  if (secret == NULL)
    return;
  yyjson_mut_val *list = yyjson_mut_obj_add_arr (self->doc, pod_spec, "imagePullSecrets");
  draft_text (self, yyjson_mut_arr_add_obj (self->doc, list), "name", secret);
}

DraftVolumes
draft_volumes (const ObjectDraft *self, yyjson_mut_val *pod_spec, yyjson_mut_val *container)
{
  return (DraftVolumes){ self, yyjson_mut_obj_add_arr (self->doc, pod_spec, "volumes"),
                         yyjson_mut_obj_add_arr (self->doc, container, "volumeMounts") };
}

void
draft_volume (const DraftVolumes *self, const char *name, DraftVolumeKind kind, const char *source, const char *path)
{
  static const struct {
    const char *member, *source;
    gboolean is_read_only;
  } kinds[] = {
    [DRAFT_SECRET] = { "secret", "secretName", TRUE },
    [DRAFT_CONFIG_MAP] = { "configMap", "name", TRUE },
    [DRAFT_EMPTY_DIR] = { "emptyDir", NULL, FALSE },
    [DRAFT_CLAIM] = { "persistentVolumeClaim", "claimName", FALSE },
  };
  const ObjectDraft *draft = self->draft;
  if (source == NULL && kind != DRAFT_EMPTY_DIR)
    return;
  yyjson_mut_val *volume = yyjson_mut_arr_add_obj (draft->doc, self->volumes);
  draft_text (draft, volume, "name", name);
  yyjson_mut_val *content = draft_object (draft, volume, kinds[kind].member);
  if (kinds[kind].source != NULL)
    draft_text (draft, content, kinds[kind].source, source);
  if (kind == DRAFT_SECRET)
    yyjson_mut_obj_add_int (draft->doc, content, "defaultMode", SECRET_MODE);
  yyjson_mut_val *mount = yyjson_mut_arr_add_obj (draft->doc, self->mounts);
  draft_text (draft, mount, "name", name);
  draft_text (draft, mount, "mountPath", path);
  if (kinds[kind].is_read_only)
    yyjson_mut_obj_add_bool (draft->doc, mount, "readOnly", TRUE);
}
