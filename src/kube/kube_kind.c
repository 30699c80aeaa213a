#include "kube/kube_kind.h"

static void
append_part (GString *path, const char *part)
{
  g_string_append_c (path, '/');
  g_string_append_uri_escaped (path, part, NULL, FALSE);
}

char *
kube_kind_path (const KubeKind *self, const char *namespace, const char *name, const char *subresource)
{
  GString *path = g_string_new (self->group[0] == '\0' ? "/api" : "/apis");
  const char *const parts[] = {
    self->group[0] != '\0' ? self->group : NULL,
    self->version,
    self->is_namespaced && namespace != NULL ? "namespaces" : NULL,
    self->is_namespaced ? namespace : NULL,
    self->plural,
    name,
    name != NULL ? subresource : NULL,
  };
  for (gsize i = 0; i < G_N_ELEMENTS (parts); i++)
    if (parts[i] != NULL)
      append_part (path, parts[i]);
  return g_string_free (path, FALSE);
}

char *
kube_kind_api_version (const KubeKind *self)
{
  return self->group[0] == '\0' ? g_strdup (self->version) : g_strconcat (self->group, "/", self->version, NULL);
}
