/* Any bytes as a kubeconfig: refused, or a configuration with a server and a namespace. */
#include "kube/kube_config.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_auto (KubeConfig) config = { 0 };
  g_autoptr (GError) error = NULL;
  gboolean done = kube_config_parse ((const char *) data, size, "/proc/self/none", NULL, &config, &error);
  g_assert_true (done == (error == NULL));
  g_assert_true (!done || (g_str_has_prefix (config.server, "http") && config.namespace != NULL));
  return 0;
}
