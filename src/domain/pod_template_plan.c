#include "domain/pod_template_plan.h"

#include <string.h>

#include "domain/delivery_names.h"
#include "domain/model_references.h"

typedef struct {
  char *name, *path, *digest, *family, *volume, *claim;
} PlannedModel;

struct PodTemplatePlan {
  GPtrArray *models; /* of PlannedModel */
  char *models_env;
  DeliveryAnnotations annotations;
};

static void
planned_model_free (gpointer data)
{
  PlannedModel *self = data;
  g_free (self->name);
  g_free (self->path);
  g_free (self->digest);
  g_free (self->family);
  g_free (self->volume);
  g_free (self->claim);
  g_free (self);
}

static PlannedModel *
planned_model_new (const DeliveredModel *model, const ModelReference *reference, const char *namespace)
{
  PlannedModel *self = g_new0 (PlannedModel, 1);
  self->name = g_strdup (model->name);
  self->path = delivery_model_path (model->name);
  self->digest = g_strdup (model->digest);
  self->family = g_strdup (model->family);
  self->volume = delivery_volume_name (DELIVERY_VOLUME_PREFIX, model->name);
  self->claim = delivery_object_name (DELIVERY_CLAIM_PREFIX, namespace, reference->is_cluster_wide, model->name,
                                      model->digest);
  return self;
}

/* Value of AI_MODELS_MODELS; the kubelet reads "$$" as "$" and "$(NAME)" as another variable. */
static char *
models_env (const GPtrArray *models)
{
  static const JsonField fields[] = {
    JSON_FIELD (PlannedModel, name, "name", JSON_STRING, TRUE),
    JSON_FIELD (PlannedModel, path, "path", JSON_STRING, TRUE),
    JSON_FIELD (PlannedModel, digest, "digest", JSON_STRING, TRUE),
    JSON_FIELD (PlannedModel, family, "family", JSON_STRING, FALSE),
  };
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *list = yyjson_mut_arr (doc);
  yyjson_mut_doc_set_root (doc, list);
  for (guint i = 0; i < models->len; i++)
    json_unbind (doc, yyjson_mut_arr_add_obj (doc, list), fields, G_N_ELEMENTS (fields),
                 g_ptr_array_index (models, i));
  g_autofree char *text = json_write (doc, NULL);
  GString *escaped = g_string_new (text);
  g_string_replace (escaped, "$", "$$", 0);
  return g_string_free (escaped, FALSE);
}

static gboolean
names_are_those (const DeliveryState *state, const GPtrArray *references)
{
  if (state->models->len != references->len)
    return FALSE;
  for (guint i = 0; i < references->len; i++)
    {
      const DeliveredModel *model = g_ptr_array_index (state->models, i);
      const ModelReference *reference = g_ptr_array_index (references, i);
      if (strcmp (model->name, reference->name) != 0)
        return FALSE;
    }
  return references->len > 0;
}

PodTemplatePlan *
pod_template_plan_new (const DeliveryState *state, const DeliveryAnnotations *annotations,
                       const GPtrArray *references, const char *namespace, GError **error)
{
  if (state->mode != DELIVERY_SHARED_PVC)
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL, "the delivery state is not of mode SharedPVC");
  if (!names_are_those (state, references))
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL,
                         "the delivery state has other models than the references");
  PodTemplatePlan *self = g_new0 (PodTemplatePlan, 1);
  self->models = g_ptr_array_new_with_free_func (planned_model_free);
  for (guint i = 0; i < references->len; i++)
    g_ptr_array_add (self->models, planned_model_new (g_ptr_array_index (state->models, i),
                                                      g_ptr_array_index (references, i), namespace));
  self->models_env = models_env (self->models);
  for (guint i = 0; i < DELIVERY_N_ANNOTATIONS; i++)
    self->annotations.values[i] = g_strdup (annotations->values[i]);
  return self;
}

void
pod_template_plan_free (PodTemplatePlan *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->models);
  g_free (self->models_env);
  delivery_annotations_clear (&self->annotations);
  g_free (self);
}

/* Reading a template */

static const char *
text_of (yyjson_mut_val *object, const char *name)
{
  const char *text = yyjson_mut_get_str (yyjson_mut_obj_get (object, name));
  return text != NULL ? text : "";
}

static yyjson_mut_val *
spec_of (yyjson_mut_val *template)
{
  return yyjson_mut_obj_get (template, "spec");
}

static gboolean
is_node_cache_volume (yyjson_mut_val *volume)
{
  return strcmp (text_of (yyjson_mut_obj_get (volume, "csi"), "driver"), NODE_CACHE_DRIVER) == 0;
}

gboolean
pod_template_owns_volume (yyjson_mut_val *volume)
{
  const char *name = text_of (volume, "name");
  const char *claim = text_of (yyjson_mut_obj_get (volume, "persistentVolumeClaim"), "claimName");
  return (g_str_has_prefix (name, DELIVERY_VOLUME_PREFIX) && g_str_has_prefix (claim, DELIVERY_CLAIM_PREFIX))
         || (g_str_has_prefix (name, NODE_CACHE_VOLUME_PREFIX) && is_node_cache_volume (volume));
}

/* Their names, borrowed from the template. */
static GHashTable *
managed_volumes (yyjson_mut_val *template)
{
  GHashTable *names = g_hash_table_new (g_str_hash, g_str_equal);
  size_t index, n;
  yyjson_mut_val *volume;
  yyjson_mut_arr_foreach (yyjson_mut_obj_get (spec_of (template), "volumes"), index, n, volume)
  {
    if (pod_template_owns_volume (volume))
      g_hash_table_add (names, (char *) text_of (volume, "name"));
  }
  return names;
}

void
pod_template_annotations (yyjson_mut_val *template, DeliveryAnnotations *out_annotations)
{
  yyjson_mut_val *map = yyjson_mut_obj_get (yyjson_mut_obj_get (template, "metadata"), "annotations");
  for (guint i = 0; i < DELIVERY_N_ANNOTATIONS; i++)
    out_annotations->values[i] = g_strdup (
      yyjson_mut_get_str (yyjson_mut_obj_get (map, delivery_annotation_names[i])));
}

static gboolean
has_state (yyjson_mut_val *template)
{
  g_auto (DeliveryAnnotations) annotations = { 0 };
  pod_template_annotations (template, &annotations);
  return delivery_annotations_are_present (&annotations);
}

static gboolean
has_delivery (yyjson_mut_val *template)
{
  g_autoptr (GHashTable) volumes = managed_volumes (template);
  return has_state (template) || g_hash_table_size (volumes) > 0;
}

gboolean
pod_template_has_gate (yyjson_mut_val *template)
{
  size_t index, n;
  yyjson_mut_val *gate;
  yyjson_mut_arr_foreach (yyjson_mut_obj_get (spec_of (template), "schedulingGates"), index, n, gate)
  {
    if (strcmp (text_of (gate, "name"), DELIVERY_GATE) == 0)
      return TRUE;
  }
  return FALSE;
}

gboolean
pod_template_is_managed (yyjson_mut_val *template)
{
  return pod_template_has_gate (template) || has_delivery (template);
}

/* Changing a template */

typedef struct {
  yyjson_mut_doc *doc;
  const PodTemplatePlan *plan; /* NULL: no models */
  gboolean has_gate;           /* shall have */
  gboolean owns_env;
  GHashTable *volumes; /* names of those of ours, in the template and in the plan */
  gboolean is_changed;
} Edit;

/* How the items of ours in a list of named items are told from others, and what they shall be. */
typedef struct {
  const char *list;
  gboolean is_first; /* new ones come before all others */
  gboolean (*owns) (const Edit *edit, yyjson_mut_val *item);
  guint (*count) (const Edit *edit);
  yyjson_mut_val *(*wanted) (const Edit *edit, guint index);
} ListRule;

static guint
count_models (const Edit *edit)
{
  return edit->plan != NULL ? edit->plan->models->len : 0;
}

static gboolean
owns_volume (const Edit *edit, yyjson_mut_val *item)
{
  return g_hash_table_contains (edit->volumes, text_of (item, "name"));
}

static yyjson_mut_val *
named (const Edit *edit, const char *name)
{
  yyjson_mut_val *item = yyjson_mut_obj (edit->doc);
  yyjson_mut_obj_add_strcpy (edit->doc, item, "name", name);
  return item;
}

static yyjson_mut_val *
wanted_volume (const Edit *edit, guint index)
{
  const PlannedModel *model = g_ptr_array_index (edit->plan->models, index);
  yyjson_mut_val *volume = named (edit, model->volume);
  yyjson_mut_val *source = yyjson_mut_obj_add_obj (edit->doc, volume, "persistentVolumeClaim");
  yyjson_mut_obj_add_strcpy (edit->doc, source, "claimName", model->claim);
  yyjson_mut_obj_add_true (edit->doc, source, "readOnly");
  return volume;
}

static yyjson_mut_val *
wanted_mount (const Edit *edit, guint index)
{
  const PlannedModel *model = g_ptr_array_index (edit->plan->models, index);
  yyjson_mut_val *mount = named (edit, model->volume);
  yyjson_mut_obj_add_strcpy (edit->doc, mount, "mountPath", model->path);
  yyjson_mut_obj_add_true (edit->doc, mount, "readOnly");
  yyjson_mut_obj_add_str (edit->doc, mount, "subPath", DELIVERY_SUBPATH);
  return mount;
}

/* AI_MODELS_MODEL_PATH, AI_MODELS_MODEL_<X>_PATH and the like: of earlier releases. */
static gboolean
is_legacy_env (const char *name)
{
  static const char *const ends[] = { "_PATH", "_DIGEST", "_FAMILY" };
  if (!g_str_has_prefix (name, "AI_MODELS_MODEL_"))
    return FALSE;
  for (gsize i = 0; i < G_N_ELEMENTS (ends); i++)
    if (g_str_has_suffix (name, ends[i]))
      return TRUE;
  return FALSE;
}

static gboolean
owns_env (const Edit *edit, yyjson_mut_val *item)
{
  const char *name = text_of (item, "name");
  return edit->owns_env
         && (strcmp (name, DELIVERY_MODELS_DIR_ENV) == 0 || strcmp (name, DELIVERY_MODELS_ENV) == 0
             || is_legacy_env (name));
}

static guint
count_env (const Edit *edit)
{
  return edit->plan != NULL ? 2 : 0;
}

static yyjson_mut_val *
wanted_env (const Edit *edit, guint index)
{
  yyjson_mut_val *variable = named (edit, index == 0 ? DELIVERY_MODELS_DIR_ENV : DELIVERY_MODELS_ENV);
  yyjson_mut_obj_add_strcpy (edit->doc, variable, "value", index == 0 ? DELIVERY_MODELS_DIR : edit->plan->models_env);
  return variable;
}

static gboolean
owns_gate (const Edit *edit, yyjson_mut_val *item)
{
  return strcmp (text_of (item, "name"), DELIVERY_GATE) == 0;
}

static guint
count_gates (const Edit *edit)
{
  return edit->has_gate ? 1 : 0;
}

static yyjson_mut_val *
wanted_gate (const Edit *edit, guint index)
{
  return named (edit, DELIVERY_GATE);
}

static const ListRule volume_rule = { "volumes", FALSE, owns_volume, count_models, wanted_volume };
static const ListRule mount_rule = { "volumeMounts", FALSE, owns_volume, count_models, wanted_mount };
/* Variables of the user may name ours, when they come after them. */
static const ListRule env_rule = { "env", TRUE, owns_env, count_env, wanted_env };
static const ListRule gate_rule = { "schedulingGates", FALSE, owns_gate, count_gates, wanted_gate };

static GPtrArray *
wanted_items (const Edit *edit, const ListRule *rule)
{
  GPtrArray *wanted = g_ptr_array_new ();
  for (guint i = 0; i < rule->count (edit); i++)
    g_ptr_array_add (wanted, rule->wanted (edit, i));
  return wanted;
}

/* Takes the wanted item of this name out of those that are still missing; NULL: none is missing. */
static yyjson_mut_val *
take_wanted (GPtrArray *missing, const char *name)
{
  for (guint i = 0; i < missing->len; i++)
    if (strcmp (text_of (g_ptr_array_index (missing, i), "name"), name) == 0)
      return g_ptr_array_steal_index (missing, i);
  return NULL;
}

/* What shall stand in the place of an item of ours: itself when it is right, NULL when it shall go. */
static yyjson_mut_val *
replacement (Edit *edit, GPtrArray *missing, yyjson_mut_val *item)
{
  yyjson_mut_val *wanted = take_wanted (missing, text_of (item, "name"));
  if (wanted != NULL && yyjson_mut_equals (wanted, item))
    return item;
  edit->is_changed = TRUE;
  return wanted;
}

static void
add_missing (Edit *edit, const ListRule *rule, yyjson_mut_val *list, GPtrArray *missing)
{
  for (guint i = 0; i < missing->len; i++)
    yyjson_mut_arr_insert (list, g_ptr_array_index (missing, i), rule->is_first ? i : yyjson_mut_arr_size (list));
  edit->is_changed |= missing->len > 0;
}

static void
apply_rule (Edit *edit, yyjson_mut_val *parent, const ListRule *rule)
{
  g_autoptr (GPtrArray) missing = wanted_items (edit, rule);
  yyjson_mut_val *list = yyjson_mut_obj_get (parent, rule->list);
  if (!yyjson_mut_is_arr (list))
    {
      if (missing->len == 0)
        return;
      list = yyjson_mut_arr (edit->doc);
      yyjson_mut_obj_put (parent, yyjson_mut_str (edit->doc, rule->list), list);
    }
  gsize n = yyjson_mut_arr_size (list);
  for (gsize i = 0; i < n; i++) /* once around: what stays comes last again */
    {
      yyjson_mut_val *item = yyjson_mut_arr_remove_first (list);
      if (rule->owns (edit, item))
        item = replacement (edit, missing, item);
      if (item != NULL)
        yyjson_mut_arr_append (list, item);
    }
  add_missing (edit, rule, list, missing);
  if (n > 0 && yyjson_mut_arr_size (list) == 0)
    yyjson_mut_obj_remove_key (parent, rule->list);
}

static void
apply_to_containers (Edit *edit, yyjson_mut_val *spec, const char *list)
{
  size_t index, n;
  yyjson_mut_val *container;
  yyjson_mut_arr_foreach (yyjson_mut_obj_get (spec, list), index, n, container)
  {
    if (!yyjson_mut_is_obj (container))
      continue;
    apply_rule (edit, container, &mount_rule);
    apply_rule (edit, container, &env_rule);
  }
}

/* All but the signature. */
static gboolean
says_the_same (const DeliveryAnnotations *a, const DeliveryAnnotations *b)
{
  for (guint i = 0; i < DELIVERED_SIGNATURE; i++)
    if (g_strcmp0 (a->values[i], b->values[i]) != 0)
      return FALSE;
  return TRUE;
}

static yyjson_mut_val *
object_in (Edit *edit, yyjson_mut_val *parent, const char *name)
{
  yyjson_mut_val *object = yyjson_mut_obj_get (parent, name);
  if (yyjson_mut_is_obj (object))
    return object;
  object = yyjson_mut_obj (edit->doc);
  yyjson_mut_obj_put (parent, yyjson_mut_str (edit->doc, name), object);
  return object;
}

static void
set_annotation (Edit *edit, yyjson_mut_val *map, const char *name, const char *value)
{
  if (value != NULL)
    yyjson_mut_obj_put (map, yyjson_mut_str (edit->doc, name), yyjson_mut_strcpy (edit->doc, value));
  else
    yyjson_mut_obj_remove_key (map, name);
  edit->is_changed = TRUE;
}

static void
apply_annotations (Edit *edit, yyjson_mut_val *template)
{
  static const DeliveryAnnotations none = { 0 };
  const DeliveryAnnotations *wanted = edit->plan != NULL ? &edit->plan->annotations : &none;
  g_auto (DeliveryAnnotations) there = { 0 };
  pod_template_annotations (template, &there);
  guint n = edit->plan != NULL && says_the_same (wanted, &there) ? DELIVERED_SIGNATURE : DELIVERY_N_ANNOTATIONS;
  for (guint i = 0; i < n; i++)
    if (g_strcmp0 (wanted->values[i], there.values[i]) != 0)
      {
        yyjson_mut_val *metadata = object_in (edit, template, "metadata");
        yyjson_mut_val *map = object_in (edit, metadata, "annotations");
        set_annotation (edit, map, delivery_annotation_names[i], wanted->values[i]);
        if (yyjson_mut_obj_size (map) == 0)
          yyjson_mut_obj_remove_key (metadata, "annotations");
      }
}

static gboolean
bring_to (yyjson_mut_doc *doc, yyjson_mut_val *template, const PodTemplatePlan *plan, gboolean has_gate)
{
  yyjson_mut_val *spec = spec_of (template);
  if (!yyjson_mut_is_obj (spec))
    return FALSE;
  g_autoptr (GHashTable) volumes = managed_volumes (template);
  Edit edit = { doc, plan, has_gate, plan != NULL || has_delivery (template), volumes, FALSE };
  for (guint i = 0; i < count_models (&edit); i++)
    {
      const PlannedModel *model = g_ptr_array_index (plan->models, i);
      g_hash_table_add (volumes, model->volume);
    }
  apply_to_containers (&edit, spec, "initContainers");
  apply_to_containers (&edit, spec, "containers");
  apply_rule (&edit, spec, &volume_rule);
  apply_rule (&edit, spec, &gate_rule);
  apply_annotations (&edit, template);
  return edit.is_changed;
}

gboolean
pod_template_deliver (yyjson_mut_doc *doc, yyjson_mut_val *template, const PodTemplatePlan *plan)
{
  return bring_to (doc, template, plan, FALSE);
}

gboolean
pod_template_hold (yyjson_mut_doc *doc, yyjson_mut_val *template)
{
  return bring_to (doc, template, NULL, TRUE);
}

gboolean
pod_template_clear (yyjson_mut_doc *doc, yyjson_mut_val *template)
{
  return bring_to (doc, template, NULL, FALSE);
}
