#include "domain/delivery_names.h"

#include <string.h>

#define DIGEST "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
#define LONG "a-name-of-sixty-four-characters-which-is-longer-than-a-label-may"

/* The same words hashed by coreutils' sha256sum. */
static void
test_object_names (void)
{
  g_autofree char *claim = delivery_object_name (DELIVERY_CLAIM_PREFIX, "team", FALSE, "minilm", DIGEST);
  g_autofree char *job = delivery_object_name (DELIVERY_JOB_PREFIX, "team", FALSE, "minilm", DIGEST);
  g_autofree char *shared = delivery_object_name (DELIVERY_CLAIM_PREFIX, "team", TRUE, "minilm", DIGEST);
  g_assert_cmpstr (claim, ==, "ai-models-cache-c775b486d74b1f3d");
  g_assert_cmpstr (job, ==, "ai-models-materialize-c775b486d74b1f3d");
  g_assert_cmpstr (shared, ==, "ai-models-cache-a5353d0723a2d77f");
}

static void
test_volume_names (void)
{
  static const struct {
    const char *model, *volume;
  } rows[] = {
    { "minilm", "ai-models-shared-minilm" },
    { "a.b", "ai-models-shared-a-b-69f6642c9d" },
    { "a-b", "ai-models-shared-a-b" },
    { LONG, "ai-models-shared-a-name-of-sixty-four-characters-whi-fbadfda125" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *volume = delivery_volume_name (DELIVERY_VOLUME_PREFIX, rows[i].model);
      g_assert_cmpstr (volume, ==, rows[i].volume);
      g_assert_cmpuint (strlen (volume), <=, 63);
    }
  g_autofree char *path = delivery_model_path ("a.b");
  g_assert_cmpstr (path, ==, "/data/modelcache/models/a.b");
}

static void
test_claim_bytes (void)
{
  static const struct {
    guint64 stored, logical, bytes;
  } rows[] = {
    { 0, 0, 1073741824 },          { 1, 976128930, 1073741824 },  { 1, 976128931, 1073741825 },
    { 2000000001, 3, 2200000002 }, { 3, 2000000000, 2200000000 }, { G_MAXUINT64, 0, G_MAXINT64 },
    { 0, G_MAXINT64, G_MAXINT64 },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    g_assert_cmpuint (delivery_claim_bytes (rows[i].stored, rows[i].logical), ==, rows[i].bytes);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/delivery-names/objects", test_object_names);
  g_test_add_func ("/delivery-names/volumes", test_volume_names);
  g_test_add_func ("/delivery-names/claim-bytes", test_claim_bytes);
  return g_test_run ();
}
