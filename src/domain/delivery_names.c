#include "domain/delivery_names.h"

#include <string.h>

#define HASH_CHARACTERS 16
#define VOLUME_HASH_CHARACTERS 10
#define MAX_VOLUME_NAME 63
#define MIN_CLAIM_BYTES (G_GUINT64_CONSTANT (1) << 30)

char *
delivery_object_name (const char *prefix, const char *namespace, gboolean is_cluster_wide, const char *model,
                      const char *digest)
{
  g_autofree char *words = g_strjoin ("\n", namespace, is_cluster_wide ? "ClusterModel" : "Model", model, digest,
                                      NULL);
  g_autofree char *hash = g_compute_checksum_for_string (G_CHECKSUM_SHA256, words, -1);
  return g_strdup_printf ("%s%.*s", prefix, HASH_CHARACTERS, hash);
}

char *
delivery_volume_name (const char *prefix, const char *model)
{
  g_autofree char *plain = g_strdelimit (g_strdup (model), "._", '-');
  gsize room = MAX_VOLUME_NAME - strlen (prefix);
  if (strcmp (plain, model) == 0 && strlen (plain) <= room)
    return g_strconcat (prefix, plain, NULL);
  g_autofree char *hash = g_compute_checksum_for_string (G_CHECKSUM_SHA1, model, -1);
  return g_strdup_printf ("%s%.*s-%.*s", prefix, (int) (room - VOLUME_HASH_CHARACTERS - 1), plain,
                          VOLUME_HASH_CHARACTERS, hash);
}

char *
delivery_model_path (const char *model)
{
  return g_strconcat (DELIVERY_MODELS_DIR "/", model, NULL);
}

guint64
delivery_claim_bytes (guint64 stored_bytes, guint64 logical_bytes)
{
  guint64 bytes = MAX (stored_bytes, logical_bytes), tenth = bytes / 10 + (bytes % 10 != 0);
  if (bytes > G_MAXINT64 - tenth)
    return G_MAXINT64;
  return MAX (bytes + tenth, MIN_CLAIM_BYTES);
}
