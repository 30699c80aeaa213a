#include "domain/pod_template_check.h"

#include <string.h>

#include "base/error.h"
#include "domain/delivery_names.h"
#include "domain/delivery_state.h"
#include "domain/model_references.h"
#include "domain/pod_template_plan.h"

typedef struct {
  GHashTable *owned;         /* names of the template's volumes that a delivery made */
  GHashTable *wanted;        /* names that the references' volumes have; owned */
  const char *const *claims; /* of volumeClaimTemplates; may be NULL */
  gboolean is_node_cached;   /* the template was last delivered by the node cache */
} Seen;

static const char *
text_of (yyjson_mut_val *object, const char *name)
{
  const char *text = yyjson_mut_get_str (yyjson_mut_obj_get (object, name));
  return text != NULL ? text : "";
}

static gboolean refuse (GError **error, const char *reason, const char *format, ...) G_GNUC_PRINTF (3, 4);

static gboolean
refuse (GError **error, const char *reason, const char *format, ...)
{
  va_list arguments;
  va_start (arguments, format);
  g_autofree char *what = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  return am_fail (error, AM_ERROR_FAILED_PRECONDITION, reason, "%s", what);
}

/* At the directory of the models or below, however it is written. */
static gboolean
is_in_cache (const char *path)
{
  g_autofree char *plain = g_canonicalize_filename (path + strspn (path, "/"), "/");
  return g_str_has_prefix (plain, DELIVERY_CACHE_DIR)
         && strchr ("/", plain[strlen (DELIVERY_CACHE_DIR)]) != NULL; /* or its end */
}

static gboolean
check_volume (const Seen *seen, yyjson_mut_val *volume, GError **error)
{
  const char *name = text_of (volume, "name");
  gboolean is_owned = pod_template_owns_volume (volume);
  gboolean is_of_node_cache = strcmp (text_of (yyjson_mut_obj_get (volume, "csi"), "driver"), NODE_CACHE_DRIVER) == 0;
  if (is_of_node_cache && !(is_owned && seen->is_node_cached))
    return refuse (error, "NodeCacheDeliveryDisabled",
                   "volume %.63s is of the node cache, but models are delivered by shared volumes here: remove it",
                   name);
  if (!is_owned && g_hash_table_contains (seen->wanted, name))
    return refuse (error, "InvalidSpec", "volume %.63s has the name of one that brings a model: name it otherwise",
                   name);
  if (is_owned)
    g_hash_table_add (seen->owned, (char *) name);
  return TRUE;
}

static gboolean
check_volumes (const Seen *seen, yyjson_mut_val *spec, GError **error)
{
  size_t index, n;
  yyjson_mut_val *volume;
  yyjson_mut_arr_foreach (yyjson_mut_obj_get (spec, "volumes"), index, n, volume)
  {
    if (!check_volume (seen, volume, error))
      return FALSE;
  }
  for (gsize i = 0; seen->claims != NULL && seen->claims[i] != NULL; i++)
    if (g_hash_table_contains (seen->wanted, seen->claims[i]))
      return refuse (error, "InvalidSpec",
                     "volumeClaimTemplate %.63s has the name of a volume that brings a model: name it otherwise",
                     seen->claims[i]);
  return TRUE;
}

static gboolean
check_mount (const Seen *seen, const char *container, yyjson_mut_val *mount, GError **error)
{
  const char *path = text_of (mount, "mountPath"), *volume = text_of (mount, "name");
  if (!is_in_cache (path))
    return TRUE;
  if (g_hash_table_contains (seen->owned, volume))
    return yyjson_mut_is_true (yyjson_mut_obj_get (mount, "readOnly"))
           || refuse (error, "InvalidSpec",
                      "container %.63s mounts volume %.63s at %.200s to write: models are read only", container,
                      volume, path);
  if (seen->claims != NULL && g_strv_contains (seen->claims, volume))
    return refuse (error, "InvalidSpec",
                   "container %.63s mounts volumeClaimTemplate %.63s at %.200s, where models are delivered: "
                   "mount it elsewhere",
                   container, volume, path);
  return refuse (error, "InvalidSpec",
                 "container %.63s mounts volume %.63s at %.200s, where models are delivered: mount it elsewhere",
                 container, volume, path);
}

static gboolean
check_device (const char *container, yyjson_mut_val *device, GError **error)
{
  const char *path = text_of (device, "devicePath");
  return !is_in_cache (path)
         || refuse (error, "InvalidSpec",
                    "container %.63s has device %.63s at %.200s, where models are delivered: put it elsewhere",
                    container, text_of (device, "name"), path);
}

static gboolean
check_container (const Seen *seen, yyjson_mut_val *container, GError **error)
{
  size_t index, n;
  yyjson_mut_val *item;
  const char *name = text_of (container, "name");
  yyjson_mut_arr_foreach (yyjson_mut_obj_get (container, "volumeMounts"), index, n, item)
  {
    if (!check_mount (seen, name, item, error))
      return FALSE;
  }
  yyjson_mut_arr_foreach (yyjson_mut_obj_get (container, "volumeDevices"), index, n, item)
  {
    if (!check_device (name, item, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean
check_containers (const Seen *seen, yyjson_mut_val *spec, GError **error)
{
  static const char *const lists[] = { "initContainers", "containers" };
  size_t index, n;
  yyjson_mut_val *container;
  for (gsize i = 0; i < G_N_ELEMENTS (lists); i++)
    yyjson_mut_arr_foreach (yyjson_mut_obj_get (spec, lists[i]), index, n, container)
    {
      if (!check_container (seen, container, error))
        return FALSE;
    }
  return TRUE;
}

/* The volumes' names; two models whose names become one (by a hash of 40 bits) cannot stand in one Pod. */
static gboolean
add_wanted (GHashTable *wanted, const GPtrArray *references, GError **error)
{
  for (guint i = 0; i < references->len; i++)
    {
      const ModelReference *reference = g_ptr_array_index (references, i);
      if (!g_hash_table_add (wanted, delivery_volume_name (DELIVERY_VOLUME_PREFIX, reference->name)))
        return refuse (error, "InvalidSpec",
                       "model %s cannot be used together with one before it: their volumes' "
                       "names are the same",
                       reference->name);
    }
  return TRUE;
}

gboolean
pod_template_check (yyjson_mut_val *template, const char *const *claim_templates, const GPtrArray *references,
                    GError **error)
{
  yyjson_mut_val *spec = yyjson_mut_obj_get (template, "spec");
  yyjson_mut_val *annotations = yyjson_mut_obj_get (yyjson_mut_obj_get (template, "metadata"), "annotations");
  g_autoptr (GHashTable) owned = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GHashTable) wanted = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  const char *mode = text_of (annotations, delivery_annotation_names[DELIVERED_MODE]);
  Seen seen = { owned, wanted, claim_templates, strcmp (mode, "NodeCache") == 0 };
  return add_wanted (wanted, references, error) && check_volumes (&seen, spec, error)
         && check_containers (&seen, spec, error);
}
