#include "domain/storage_verdict.h"

#include <string.h>

static gboolean
is_set (const char *name)
{
  return name != NULL && name[0] != '\0';
}

static StorageClassChoice
choose_named (const char *name, const StorageClassView *classes, gsize n)
{
  for (gsize i = 0; i < n; i++)
    if (strcmp (classes[i].name, name) == 0)
      return (StorageClassChoice){ classes[i].defers_binding ? STORAGE_CLASS_DEFERS : STORAGE_CLASS_FINE, name };
  return (StorageClassChoice){ STORAGE_CLASS_UNKNOWN, name };
}

static StorageClassChoice
choose_default (const StorageClassView *classes, gsize n)
{
  const StorageClassView *found = NULL;
  for (gsize i = 0; i < n; i++)
    if (classes[i].is_default)
      {
        if (found != NULL)
          return (StorageClassChoice){ STORAGE_CLASS_AMBIGUOUS, NULL };
        found = &classes[i];
      }
  if (found == NULL)
    return (StorageClassChoice){ STORAGE_CLASS_NONE, NULL };
  return choose_named (found->name, classes, n);
}

StorageClassChoice
storage_class_choose (const StorageClassSettings *settings, const StorageClassView *classes, gsize n)
{
  const char *const names[] = { settings->delivery, settings->modules, settings->cluster };
  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    if (is_set (names[i]))
      return choose_named (names[i], classes, n);
  return choose_default (classes, n);
}

char *
storage_class_message (const StorageClassChoice *choice)
{
  switch (choice->finding)
    {
    case STORAGE_CLASS_NONE:
      return g_strdup ("no StorageClass is chosen and the cluster has no default one: set "
                       "delivery.sharedPVCStorageClassName, or mark a class as default");
    case STORAGE_CLASS_UNKNOWN:
      return g_strdup_printf ("StorageClass %s does not exist: create it, or choose another by "
                              "delivery.sharedPVCStorageClassName",
                              choice->name);
    case STORAGE_CLASS_AMBIGUOUS:
      return g_strdup (
        "several StorageClasses are marked as default: choose one by delivery.sharedPVCStorageClassName");
    case STORAGE_CLASS_DEFERS:
      return g_strdup_printf (
        "StorageClass %s binds a volume only when a Pod uses it (WaitForFirstConsumer), but Pods "
        "wait for the models on the volume: choose a class with volumeBindingMode Immediate",
        choice->name);
    case STORAGE_CLASS_FINE:
    default: return NULL;
    }
}

static const char *
reason_of (DeliveryMode mode, const StorageView *seen)
{
  static const char *const reasons[] = {
    [STORAGE_CLASS_FINE] = "Satisfied",
    [STORAGE_CLASS_NONE] = "StorageClassMissing",
    [STORAGE_CLASS_UNKNOWN] = "StorageClassMissing",
    [STORAGE_CLASS_AMBIGUOUS] = "StorageClassAmbiguous",
    [STORAGE_CLASS_DEFERS] = "StorageClassDefersBinding",
  };
  if (!seen->is_known)
    return "CheckFailed";
  if (mode == DELIVERY_NODE_CACHE)
    return seen->has_local_storage ? "Satisfied" : "LocalStorageClassMissing";
  return reasons[seen->choice.finding];
}

StorageVerdict
storage_verdict (DeliveryMode mode, const StorageView *seen)
{
  const char *reason = reason_of (mode, seen);
  return (StorageVerdict){ strcmp (reason, "Satisfied") == 0, delivery_mode_name (mode), reason };
}
