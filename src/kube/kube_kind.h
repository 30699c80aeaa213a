/* Kinds of objects by the paths the API server has them under. Thread-safe. */
#pragma once

#include <glib.h>

typedef struct {
  const char *group; /* "" for the core group */
  const char *version;
  const char *plural;
  const char *kind;
  gboolean is_namespaced;
} KubeKind;

/* "/apis/apps/v1/namespaces/NS/deployments/NAME/SUB"; `namespace` NULL: all of them, or a kind without; `name` NULL: the
 * collection; `subresource` NULL: the object itself. Parts are percent-encoded. Caller frees. */
char *kube_kind_path (const KubeKind *self, const char *namespace, const char *name, const char *subresource);
/* "apps/v1", "v1"; caller frees. */
char *kube_kind_api_version (const KubeKind *self);
