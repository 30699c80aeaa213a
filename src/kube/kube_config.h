/* Where the API server is and who we are there: a kubeconfig file, or what a Pod is given. Used by main/ and the tests;
 * values belong to one thread. */
#pragma once

#include "base/error.h"

typedef struct {
  char *server;     /* "https://host:port[/path]", no slash at the end */
  char *ca_pem;     /* NULL: the system's */
  char *client_pem; /* certificate and key, or NULL */
  char *token;      /* or NULL */
  char *token_file; /* read again as it changes; wins over token; or NULL */
  char *proxy_url;  /* or NULL */
  char *namespace;  /* never NULL: "default" when nothing says otherwise */
  gboolean insecure_skip_verify;
} KubeConfig;

/* From `path` (NULL: the first file of $KUBECONFIG that is there, then a Pod's own service account, then
 * ~/.kube/config) and the context of that name (NULL: the current one). Blocks on files. NOT_FOUND when there is none of
 * them, INVALID_ARGUMENT naming the file and what is wrong with it, UNIMPLEMENTED for users that need a plugin or a
 * password. Secrets never stand in messages. */
gboolean kube_config_load (const char *path, const char *context, KubeConfig *out_config, GError **error);
/* The text of a kubeconfig file; relative names in it are taken from `dir`. Errors as above. */
gboolean kube_config_parse (const char *text, gsize size, const char *dir, const char *context,
                            KubeConfig *out_config, GError **error);
/* What a Pod has: $KUBERNETES_SERVICE_HOST and _PORT, and `dir` (NULL: /var/run/secrets/kubernetes.io/serviceaccount).
 * NOT_FOUND outside of one. */
gboolean kube_config_in_cluster (const char *dir, KubeConfig *out_config, GError **error);

void kube_config_clear (KubeConfig *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (KubeConfig, kube_config_clear)
