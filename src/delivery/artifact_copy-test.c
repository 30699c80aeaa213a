/* Copying with what refers to an artifact: between local stores, out of registries that lie about it, and what is seen
 * when any single operation fails. */
#include "delivery/artifact_copy.h"

#include <string.h>

#include "oci/media_types.h"
#include "oci/referrers.h"
#include "registry/registry_fixture.h"
#include "registry/repository_local.h"
#include "registry/scripted_registry.h"
#include "storage/object_store_fault.h"

typedef struct {
  StoreFixture from, to;
  ObjectStore *faulty; /* around the destination's */
  BlobStore *faulty_blobs;
  Repository *source, *target;
  GBytes *config, *model, *first, *second, *of_first; /* manifests */
  Digest digest;                                      /* of the model's */
} Fixture;

static GBytes *
put (Fixture *self, const char *tag, GBytes *subject, const char *note)
{
  g_autoptr (GError) error = NULL;
  Digest digest;
  if (subject != NULL)
    fixture_digest (subject, &digest);
  GBytes *bytes = fixture_manifest (self->config, NULL, subject != NULL ? &digest : NULL, note);
  repository_put_manifest (NULL, self->source, tag, NULL, bytes, NULL, &error);
  g_assert_no_error (error);
  return bytes;
}

static void
set_up (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  store_fixture_init (&self->from);
  store_fixture_init (&self->to);
  self->faulty = object_store_fault_new (self->to.objects);
  self->faulty_blobs = blob_store_new (self->faulty);
  self->source = repository_local_new (self->from.blobs, "team/m", NULL);
  self->target = repository_local_new (self->faulty_blobs, "team/copy", NULL);
  self->config = g_bytes_new_static ("{}", 2);
  g_autoptr (Reader) reader = reader_new_bytes (self->config);
  g_assert_true (repository_push_blob (NULL, self->source, reader, NULL, NULL, NULL, NULL, NULL, &error));
  self->model = put (self, "v1", NULL, "model");
  self->first = put (self, NULL, self->model, "first");
  self->second = put (self, NULL, self->model, "second");
  self->of_first = put (self, NULL, self->first, "of-first");
  fixture_digest (self->model, &self->digest);
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  GBytes *all[] = { self->config, self->model, self->first, self->second, self->of_first };
  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    g_bytes_unref (all[i]);
  repository_free (self->source);
  repository_free (self->target);
  blob_store_free (self->faulty_blobs);
  object_store_free (self->faulty);
  store_fixture_clear (&self->from);
  store_fixture_clear (&self->to);
}

static guint
n_referrers (Repository *repository, GBytes *subject)
{
  g_autoptr (GError) error = NULL;
  Digest digest;
  fixture_digest (subject, &digest);
  g_autoptr (GPtrArray) found = repository_list_referrers (NULL, repository, &digest, &error);
  g_assert_no_error (error);
  return found->len;
}

static gboolean
copy (Fixture *self, Repository *source, const char *tag, gboolean with_referrers, CopyResult *result, GError **error)
{
  char text[DIGEST_STRING_SIZE];
  CopyOptions options = { .referrers = with_referrers };
  return artifact_copy (NULL, source, digest_format (&self->digest, text), self->target, tag, &options, result,
                        error);
}

static void
test_with_and_without (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  CopyResult result;
  g_assert_true (copy (self, self->source, "v1", FALSE, &result, &error));
  g_assert_cmpuint (result.n_manifests, ==, 1);
  g_assert_cmpuint (n_referrers (self->target, self->model), ==, 0);
  g_assert_true (copy (self, self->source, NULL, TRUE, &result, &error));
  g_assert_true (digest_equal (&result.digest, &self->digest));
  g_assert_cmpuint (result.n_manifests, ==, 4);
  g_assert_cmpuint (result.n_referrers, ==, 3);
  g_assert_cmpuint (result.n_missing_referrers, ==, 0);
  g_assert_cmpuint (n_referrers (self->target, self->model), ==, 2);
  g_assert_cmpuint (n_referrers (self->target, self->first), ==, 1);
}

/* What is damaged at the destination is not taken for a copy. */
static void
test_damage_is_mended (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  CopyResult result;
  Digest config;
  fixture_digest (self->config, &config);
  g_assert_true (copy (self, self->source, "v1", FALSE, &result, &error));
  g_autofree char *key = blob_data_key (&config);
  g_autofree char *path = g_build_filename (self->to.root, key, NULL);
  g_assert_true (g_file_set_contents (path, "[]", 2, NULL));
  g_assert_true (copy (self, self->source, "v1", FALSE, &result, &error));
  g_assert_cmpuint (result.moved_bytes, ==, 2);
  blob_store_verify (NULL, self->to.blobs, &config, NULL, NULL, &error);
  g_assert_no_error (error);
}

/* Each operation at the destination fails once: the tag is there only with everything that refers to it. */
static void
test_under_faults (Fixture *self, gconstpointer data)
{
  gboolean done = FALSE;
  for (guint nth = 1; !done; nth++)
    {
      g_autoptr (GError) error = NULL;
      CopyResult result;
      object_store_fault_set (self->faulty, nth, FALSE);
      done = copy (self, self->source, "v1", TRUE, &result, &error);
      object_store_fault_set (self->faulty, 0, FALSE);
      g_autoptr (GBytes) seen = repository_get_manifest (NULL, self->target, "v1", NULL, NULL, NULL);
      g_assert_true (seen != NULL || !done);
      if (seen != NULL)
        {
          g_assert_true (g_bytes_equal (seen, self->model));
          g_assert_cmpuint (n_referrers (self->target, self->model), ==, 2);
          g_assert_cmpuint (n_referrers (self->target, self->first), ==, 1);
        }
      g_assert_cmpuint (nth, <, 500);
    }
}

static GBytes *
index_of (GBytes *const *manifests, guint n)
{
  GBytes *index = NULL;
  for (guint i = 0; i < n; i++)
    {
      char text[DIGEST_STRING_SIZE];
      Digest digest;
      gboolean had;
      fixture_digest (manifests[i], &digest);
      g_autoptr (GBytes) old = index;
      g_autofree char *descriptor = g_strdup_printf (
        "{\"mediaType\":\"" OCI_MANIFEST "\",\"digest\":\"%s\",\"size\":1}", digest_format (&digest, text));
      index = referrers_index_add (old, &digest, descriptor, &had, NULL);
    }
  return index;
}

#define N_SERVED 3

/* A registry that has N_SERVED manifests and lists these referrers of the first that is asked about. */
typedef struct {
  ScriptedRegistry registry;
  ScriptRule rules[N_SERVED + 3];
  char *paths[N_SERVED];
  Repository *repository;
} Source;

static void
source_start (Source *self, GBytes *const *served, GBytes *list)
{
  for (guint i = 0; i < N_SERVED; i++)
    {
      char text[DIGEST_STRING_SIZE];
      Digest digest;
      fixture_digest (served[i], &digest);
      self->paths[i] = g_strdup_printf ("*/manifests/%s", digest_format (&digest, text));
      self->rules[i] = (ScriptRule){ "GET", self->paths[i], .status = 200, .blob = served[i] };
    }
  self->rules[N_SERVED] = (ScriptRule){
    "GET", "*/referrers/*", .times = 1, .status = 200, .headers = "Content-Type: " OCI_INDEX, .blob = list
  };
  self->rules[N_SERVED + 1] = (ScriptRule){ "GET", "*/blobs/*", .status = 200, .text = "{}" };
  self->rules[N_SERVED + 2] = (ScriptRule){ "HEAD", "*/blobs/*", .status = 200, .text = "{}" };
  scripted_registry_start (&self->registry, self->rules, G_N_ELEMENTS (self->rules), NULL);
  self->repository = scripted_registry_client (&self->registry, 0);
}

static void
source_clear (Source *self)
{
  repository_free (self->repository);
  scripted_registry_stop (&self->registry);
  for (guint i = 0; i < N_SERVED; i++)
    g_free (self->paths[i]);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Source, source_clear)

/* A source whose list of referrers names, of three, one that refers, one that does not, and one that is not there. */
static void
test_lying_list (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) stranger = fixture_manifest (self->config, NULL, NULL, "stranger");
  GBytes *listed[] = { self->second, stranger, self->of_first };
  g_autoptr (GBytes) list = index_of (listed, G_N_ELEMENTS (listed));
  GBytes *served[N_SERVED] = { self->model, self->second, stranger };
  g_auto (Source) source = { 0 };
  source_start (&source, served, list);
  CopyResult result;
  copy (self, source.repository, "v1", TRUE, &result, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (result.n_referrers, ==, 1);
  g_assert_cmpuint (result.n_missing_referrers, ==, 2);
  g_assert_cmpuint (result.n_manifests, ==, 2);
  g_assert_cmpuint (n_referrers (self->target, self->model), ==, 1);
}

/* A referrer that is an index of these two. */
static GBytes *
referring_index (GBytes *subject, GBytes *first, GBytes *second)
{
  GBytes *all[] = { first, second, subject };
  char text[G_N_ELEMENTS (all)][DIGEST_STRING_SIZE];
  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    {
      Digest digest;
      fixture_digest (all[i], &digest);
      digest_format (&digest, text[i]);
    }
#define ONE "{\"mediaType\":\"" OCI_MANIFEST "\",\"digest\":\"%s\",\"size\":1}"
  char *index = g_strdup_printf ("{\"schemaVersion\":2,\"mediaType\":\"" OCI_INDEX "\",\"manifests\":[" ONE "," ONE
                                 "],\"subject\":" ONE "}",
                                 text[0], text[1], text[2]);
#undef ONE
  return g_bytes_new_take (index, strlen (index));
}

/* Of a referrer that is not all there, nothing is copied. */
static void
test_referrer_in_part (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) child = fixture_manifest (self->config, NULL, NULL, "child");
  g_autoptr (GBytes) gone = fixture_manifest (self->config, NULL, NULL, "gone");
  g_autoptr (GBytes) index = referring_index (self->model, child, gone);
  GBytes *served[N_SERVED] = { self->model, index, child };
  g_autoptr (GBytes) list = index_of (&index, 1);
  g_auto (Source) source = { 0 };
  source_start (&source, served, list);
  CopyResult result;
  copy (self, source.repository, "v1", TRUE, &result, &error);
  g_assert_no_error (error);
  g_autofree char *asked = g_strconcat ("GET ", source.paths[2], " *", NULL);
  g_assert_cmpuint (scripted_registry_count (&source.registry, asked), ==, 1); /* the child came before the gap */
  g_assert_cmpuint (result.n_referrers, ==, 0);
  g_assert_cmpuint (result.n_missing_referrers, ==, 1);
  g_assert_cmpuint (result.n_manifests, ==, 1);
}

/* A source whose every manifest has one more that refers to it. */
static void
test_too_deep (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GBytes *last = g_bytes_ref (self->of_first);
  for (guint i = 0; i < 7; i++)
    {
      g_autofree char *note = g_strdup_printf ("deep-%u", i);
      GBytes *next = put (self, NULL, last, note);
      g_bytes_unref (last);
      last = next;
    }
  g_bytes_unref (last);
  CopyResult result;
  g_assert_false (copy (self, self->source, "v1", TRUE, &result, &error));
  g_assert_error (error, AM_ERROR, AM_ERROR_RESOURCE_EXHAUSTED);
  g_assert_nonnull (strstr (error->message, "more than 8 deep"));
  g_assert_null (repository_get_manifest (NULL, self->target, "v1", NULL, NULL, NULL));
  g_assert_cmpuint (store_fixture_count (&self->to, "docker/"), ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, func) g_test_add ("/artifact-copy/" name, Fixture, NULL, set_up, func, tear_down)
  ADD ("with-and-without", test_with_and_without);
  ADD ("damage-is-mended", test_damage_is_mended);
  ADD ("under-faults", test_under_faults);
  ADD ("lying-list", test_lying_list);
  ADD ("referrer-in-part", test_referrer_in_part);
  ADD ("too-deep", test_too_deep);
  return g_test_run ();
}
