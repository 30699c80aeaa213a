#include "kube/kube_config.h"

#include <string.h>

#include "base/file.h"

#define HEAD                                                                   \
  "apiVersion: v1\nkind: Config\ncurrent-context: here\n"                      \
  "contexts:\n- {name: here, context: {cluster: c, user: u, namespace: ns}}\n" \
  "- {name: there, context: {cluster: d, user: v}}\n"                          \
  "- {name: lost, context: {cluster: gone, user: u}}\n"                        \
  "- {name: half, context: {cluster: c}}\n"

static gboolean
parse (const char *text, const char *dir, const char *context, KubeConfig *out_config, GError **error)
{
  return kube_config_parse (text, strlen (text), dir, context, out_config, error);
}

static void
test_contexts (void)
{
  static const char text[] = HEAD
    "clusters:\n- {name: c, cluster: {server: 'https://one:6443/', certificate-authority-data: Q0E=}}\n"
    "- {name: d, cluster: {server: 'http://two', insecure-skip-tls-verify: true, proxy-url: 'http://p:3128'}}\n"
    "users:\n- {name: u, user: {client-certificate-data: Q0VSVA==, client-key-data: S0VZ}}\n"
    "- {name: v, user: {token: secret, tokenFile: tok}}\n";
  g_auto (KubeConfig) here = { 0 }, there = { 0 };
  g_autoptr (GError) error = NULL;
  g_assert_true (parse (text, "/etc", NULL, &here, &error));
  g_assert_cmpstr (here.server, ==, "https://one:6443");
  g_assert_cmpstr (here.ca_pem, ==, "CA");
  g_assert_cmpstr (here.client_pem, ==, "CERT\nKEY");
  g_assert_cmpstr (here.namespace, ==, "ns");
  g_assert_null (here.token);
  g_assert_false (here.insecure_skip_verify);
  g_assert_true (parse (text, "/etc", "there", &there, &error));
  g_assert_cmpstr (there.server, ==, "http://two");
  g_assert_cmpstr (there.token, ==, "secret");
  g_assert_cmpstr (there.token_file, ==, "/etc/tok");
  g_assert_cmpstr (there.proxy_url, ==, "http://p:3128");
  g_assert_cmpstr (there.namespace, ==, "default");
  g_assert_true (there.insecure_skip_verify);
}

static void
test_refusals (void)
{
  static const struct {
    const char *text, *context, *message;
    AmErrorCode code;
  } rows[] = {
    { "", NULL, "no current-context", AM_ERROR_INVALID_ARGUMENT },
    { "[1]", NULL, "no current-context", AM_ERROR_INVALID_ARGUMENT },
    { "a: [", NULL, "YAML", AM_ERROR_INVALID_ARGUMENT },
    { HEAD, "none", "no context \"none\"", AM_ERROR_INVALID_ARGUMENT },
    { HEAD, "lost", "no cluster \"gone\"", AM_ERROR_INVALID_ARGUMENT },
    { HEAD, "half", "names no cluster or no user", AM_ERROR_INVALID_ARGUMENT },
    { HEAD "clusters: [{name: c, cluster: {server: 'ftp://x'}}]\nusers: [{name: u, user: {}}]", NULL, "no http",
      AM_ERROR_INVALID_ARGUMENT },
    { HEAD "clusters: [{name: c, cluster: {server: 'https://x', certificate-authority-data: '!'}}]\n"
           "users: [{name: u, user: {}}]",
      NULL, "certificate-authority-data", AM_ERROR_INVALID_ARGUMENT },
    { HEAD "clusters: [{name: c, cluster: {server: 'https://x', certificate-authority: none.pem}}]\n"
           "users: [{name: u, user: {}}]",
      NULL, "/nowhere/none.pem", AM_ERROR_NOT_FOUND },
    { HEAD "clusters: [{name: c, cluster: {server: 'https://x'}}]\n"
           "users: [{name: u, user: {client-certificate-data: QQ==}}]",
      NULL, "without the other", AM_ERROR_INVALID_ARGUMENT },
    { HEAD "clusters: [{name: c, cluster: {server: 'https://x'}}]\nusers: [{name: u, user: {exec: {command: aws}}}]",
      NULL, "\"exec\"", AM_ERROR_UNIMPLEMENTED },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (KubeConfig) config = { 0 };
      g_autoptr (GError) error = NULL;
      g_assert_false (parse (rows[i].text, "/nowhere", rows[i].context, &config, &error));
      g_test_message ("%s", error->message);
      g_assert_cmpint (error->code, ==, rows[i].code);
      g_assert_nonnull (strstr (error->message, rows[i].message));
      g_assert_null (config.server);
    }
}

static void
write_file (const char *dir, const char *name, const char *text)
{
  g_autofree char *path = g_build_filename (dir, name, NULL);
  g_assert_true (g_file_set_contents (path, text, -1, NULL));
}

/* $KUBECONFIG, then the Pod's, then what is in the home directory. */
static void
test_places (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *dir = g_dir_make_tmp ("kube-config-XXXXXX", &error);
  g_autofree char *config_file = g_build_filename (dir, "config", NULL);
  g_autofree char *list = g_strconcat (dir, "/none:", config_file, NULL);
  g_auto (KubeConfig) found = { 0 }, pod = { 0 }, bad = { 0 };
  write_file (dir, "config",
              HEAD "clusters: [{name: c, cluster: {server: 'https://x', certificate-authority: ca.crt}}]\n"
                   "users: [{name: u, user: {token: t}}]\n");
  write_file (dir, "ca.crt", "CA\n");
  g_setenv ("KUBECONFIG", list, TRUE);
  g_setenv ("KUBERNETES_SERVICE_HOST", "fd00::1", TRUE);
  g_setenv ("KUBERNETES_SERVICE_PORT", "443", TRUE);
  g_assert_true (kube_config_load (NULL, NULL, &found, &error));
  g_assert_cmpstr (found.server, ==, "https://x");
  g_assert_cmpstr (found.ca_pem, ==, "CA\n");
  g_unsetenv ("KUBECONFIG");
  write_file (dir, "namespace", "mine\n");
  g_assert_true (kube_config_in_cluster (dir, &pod, &error));
  g_autofree char *token_file = g_build_filename (dir, "token", NULL);
  g_assert_cmpstr (pod.server, ==, "https://[fd00::1]:443");
  g_assert_cmpstr (pod.namespace, ==, "mine");
  g_assert_cmpstr (pod.token_file, ==, token_file);
  g_unsetenv ("KUBERNETES_SERVICE_HOST");
  g_assert_false (kube_config_in_cluster (dir, &bad, &error));
  g_assert_true (am_error_is (error, AM_ERROR_NOT_FOUND));
  g_clear_error (&error);
  write_file (dir, "config", "current-context: {");
  g_assert_false (kube_config_load (config_file, NULL, &bad, &error));
  g_assert_nonnull (strstr (error->message, config_file));
  g_assert_true (file_remove_tree (dir, NULL));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/kube-config/contexts", test_contexts);
  g_test_add_func ("/kube-config/refusals", test_refusals);
  g_test_add_func ("/kube-config/places", test_places);
  return g_test_run ();
}
