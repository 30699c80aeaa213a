/* What the caches of the controller cost: kube_bench SECONDS fills them from the API server that $KUBECONFIG names, then
 * tells the time it took and the memory it holds, now and after so long. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "kube/informer.h"

#define OURS "app.kubernetes.io/part-of=ai-models"
#define NAMESPACE "d8-ai-models"

static const KubeKind kinds[] = {
  { "ai.deckhouse.io", "v1alpha1", "models", "Model", TRUE },
  { "ai.deckhouse.io", "v1alpha1", "clustermodels", "ClusterModel", FALSE },
  { "", "v1", "pods", "Pod", TRUE },
  { "", "v1", "secrets", "Secret", TRUE },
  { "", "v1", "configmaps", "ConfigMap", TRUE },
};

static void
values_of (const KubeObject *object, GPtrArray *out_values)
{
  const char *owner = kube_object_annotation (object, "ai.deckhouse.io/owner-uid-full");
  g_ptr_array_add (out_values, g_strdup (owner != NULL ? owner : kube_object_uid (object)));
}

static void
print_memory (const char *when, gint64 begin_us)
{
  g_autofree char *text = NULL;
  char *rss = NULL;
  if (g_file_get_contents ("/proc/self/status", &text, NULL, NULL) && (rss = strstr (text, "VmRSS:")) != NULL)
    strchr (rss, '\n')[0] = '\0';
  struct mallinfo2 heap = mallinfo2 ();
  struct rusage usage = { 0 };
  getrusage (RUSAGE_SELF, &usage);
  double cpu = (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
               + (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
  printf ("%s: %.2f s, CPU %.2f s, %s, peak %ld kB, in use %zu kB, free %zu kB, mapped %zu kB\n", when,
          (double) (g_get_monotonic_time () - begin_us) / 1e6, cpu, rss, usage.ru_maxrss, heap.uordblks / 1024,
          heap.fordblks / 1024, heap.hblkhd / 1024);
  fflush (stdout);
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  g_auto (KubeConfig) config = { 0 };
  gint64 begin_us = g_get_monotonic_time ();
  if (!kube_config_load (NULL, NULL, &config, &error))
    g_error ("%s", error->message);
  g_autoptr (KubeClient) client = kube_client_new (&config, &error);
  if (client == NULL)
    g_error ("%s", error->message);
  g_autoptr (Ctx) ctx = ctx_new_child (NULL, -1);
  Informer *informers[G_N_ELEMENTS (kinds)];
  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      InformerConfig wanted = { .kind = &kinds[i], .index = values_of };
      if (i >= 2)
        wanted.namespace = NAMESPACE;
      if (i >= 2)
        wanted.label_selector = OURS;
      informers[i] = informer_start (ctx, client, &wanted);
    }
  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (!informer_wait (ctx, informers[i], &error))
      g_error ("%s", error->message);
  print_memory ("synced", begin_us);
  g_usleep ((gulong) (argc > 1 ? atoi (argv[1]) : 0) * G_USEC_PER_SEC);
  print_memory ("later", begin_us);
  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++)
    informer_free (informers[i]);
  return 0;
}
