/* The contract of the port, run against each adapter. */
#include "storage/object_store.h"

#include <string.h>

#include "base/text.h"
#include "storage/object_store_s3.h"
#include "storage/storage_fixture.h"

#define S3_VARIABLE "AI_MODELS_TEST_S3" /* s3://BUCKET?endpoint=URL; unset: no bucket at hand */

/* What not every kind of store is asked for. */
typedef enum {
  NEEDS_TREE = 1 << 0,  /* refuses a key below another */
  NEEDS_LOCKS = 1 << 1, /* holds other processes back */
  NEEDS_LAZY = 1 << 2,  /* commits that do not last yet */
} Needs;

typedef struct {
  const char *name;
  void (*func) (ObjectStore *objects);
  Needs needs;
} Row;

/* How often something is tried: where every operation takes its time, a tenth is enough. */
static guint
n_rounds (ObjectStore *objects, guint n)
{
  return object_store_is_far (objects) ? n / 10 : n;
}

static void
test_basics (ObjectStore *objects)
{
  g_autoptr (GError) error = NULL;
  gboolean exists = TRUE;
  ObjectInfo info = { 0 };
  gint64 before_ms = g_get_real_time () / 1000 - 1000;
  fixture_assert_ok (object_store_exists (NULL, objects, "t/a", &exists, &error), error);
  g_assert_false (exists);
  g_assert_false (object_store_stat (NULL, objects, "t/a", NULL, &error));
  fixture_assert_error (&error, AM_ERROR_NOT_FOUND, NULL);
  g_assert_null (object_store_open (NULL, objects, "t/a", &error));
  fixture_assert_error (&error, AM_ERROR_NOT_FOUND, NULL);
  fixture_assert_ok (object_store_remove (NULL, objects, "t/a", &error), error);
  fixture_put (objects, "t/a", "hello");
  fixture_assert_ok (object_store_stat (NULL, objects, "t/a", &info, &error), error);
  g_assert_cmpuint (info.size_bytes, ==, 5);
  g_assert_cmpint (info.modified_ms, >=, before_ms);
  g_assert_cmpint (info.modified_ms, <=, g_get_real_time () / 1000 + 1000);
  g_autofree char *content = fixture_get (objects, "t/a");
  g_assert_cmpstr (content, ==, "hello");
  g_assert_null (object_store_get (NULL, objects, "t/a", 4, &error));
  fixture_assert_error (&error, AM_ERROR_RESOURCE_EXHAUSTED, NULL);
  fixture_put (objects, "t/a", "");
  g_autofree char *nothing = fixture_get (objects, "t/a");
  g_assert_cmpstr (nothing, ==, "");
  fixture_assert_ok (object_store_remove (NULL, objects, "t/a", &error), error);
  g_assert_null (fixture_get (objects, "t/a"));
}

static void
test_ranges (ObjectStore *objects)
{
  static const struct {
    guint64 offset;
    gsize size;
    const char *wanted; /* NULL: OUT_OF_RANGE */
  } rows[] = {
    { 0, 10, "0123456789" }, { 0, 0, "" },    { 10, 0, "" },   { 9, 1, "9" },
    { 3, 4, "3456" },        { 10, 1, NULL }, { 0, 11, NULL }, { G_MAXUINT64, 1, NULL },
  };
  g_autoptr (GError) error = NULL;
  fixture_put (objects, "t/r", "0123456789");
  g_autoptr (Reader) reader = object_store_open (NULL, objects, "t/r", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (reader->size_bytes, ==, 10);
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      char buffer[16] = "";
      gboolean ok = reader_read_at (NULL, reader, rows[i].offset, buffer, rows[i].size, &error);
      g_assert_cmpint (ok, ==, rows[i].wanted != NULL);
      if (ok)
        g_assert_cmpstr (buffer, ==, rows[i].wanted);
      else
        fixture_assert_error (&error, AM_ERROR_OUT_OF_RANGE, NULL);
    }
}

static void
test_writer (ObjectStore *objects)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (ObjectWriter) writer = object_store_create (NULL, objects, &error);
  g_assert_no_error (error);
  fixture_assert_ok (object_writer_append (NULL, writer, "....body", 8, &error), error);
  fixture_assert_ok (object_writer_append (NULL, writer, NULL, 0, &error), error);
  fixture_assert_ok (object_writer_patch (NULL, writer, 0, "head", 4, &error), error);
  fixture_assert_ok (object_writer_append (NULL, writer, "tail", 4, &error), error);
  g_autofree char *before = fixture_list (objects, "", 10);
  g_assert_cmpstr (before, ==, ""); /* nothing to be seen yet */
  fixture_assert_ok (object_writer_commit (NULL, writer, "t/w", OBJECT_COMMIT_DEFAULT, &error), error);
  g_autofree char *content = fixture_get (objects, "t/w");
  g_assert_cmpstr (content, ==, "headbodytail");
  g_autoptr (ObjectWriter) dropped = object_store_create (NULL, objects, &error);
  fixture_assert_ok (object_writer_append (NULL, dropped, "x", 1, &error), error);
  g_clear_pointer (&dropped, object_writer_free);
  object_writer_free (NULL);
  g_autofree char *after = fixture_list (objects, "", 10);
  g_assert_cmpstr (after, ==, "t/w");
}

static void
test_keys (ObjectStore *objects)
{
  static const char *const bad[] = {
    "",    "a",      "/a/b", "a/",     "a//b", "../a",   "a/../b",
    "a/.", ".tmp/x", ".x/y", "a\\b/c", "a/\n", "a/\xff", "ai-models-store.json",
  };
  g_autoptr (GError) error = NULL;
  for (gsize i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      gboolean exists;
      g_assert_null (object_store_open (NULL, objects, bad[i], &error));
      fixture_assert_error (&error, AM_ERROR_INVALID_ARGUMENT, NULL);
      g_assert_false (object_store_put (NULL, objects, bad[i], "x", 1, OBJECT_COMMIT_DEFAULT, &error));
      fixture_assert_error (&error, AM_ERROR_INVALID_ARGUMENT, NULL);
      g_assert_false (object_store_remove (NULL, objects, bad[i], &error));
      fixture_assert_error (&error, AM_ERROR_INVALID_ARGUMENT, NULL);
      g_assert_false (object_store_exists (NULL, objects, bad[i], &exists, &error));
      fixture_assert_error (&error, AM_ERROR_INVALID_ARGUMENT, NULL);
    }
  static const char *const bad_prefixes[] = { "a", "../", "a/../", "/", "//" };
  for (gsize i = 0; i < G_N_ELEMENTS (bad_prefixes); i++)
    {
      g_assert_null (object_store_list (NULL, objects, bad_prefixes[i], NULL, 10, &error));
      fixture_assert_error (&error, AM_ERROR_INVALID_ARGUMENT, NULL);
    }
  /* Hidden files of users are objects like others. */
  fixture_put (objects, "raw/u/.gitattributes", "x");
  fixture_put (objects, "raw/u/..b/.c", "x");
  g_autofree char *keys = fixture_list (objects, "", 1);
  g_assert_cmpstr (keys, ==, "raw/u/..b/.c raw/u/.gitattributes");
}

static void
test_list (ObjectStore *objects)
{
  static const char *const keys[] = { "l/a-b", "l/a.b", "l/a/b", "l/a/b-c", "l/a/c/d", "l/a0", "l/b", "m/x" };
  static const char sorted[] = "l/a-b l/a.b l/a/b l/a/b-c l/a/c/d l/a0 l/b";
  g_autoptr (GError) error = NULL;
  for (gsize i = G_N_ELEMENTS (keys); i > 0; i--)
    fixture_put (objects, keys[i - 1], "x");
  for (guint page = 1; page <= 8; page++)
    {
      g_autofree char *listed = fixture_list (objects, "l/", page);
      g_assert_cmpstr (listed, ==, sorted);
    }
  static const struct {
    const char *prefix, *after, *wanted;
  } rows[] = {
    { "l/a/", NULL, "l/a/b" },     { "l/", "l/a", "l/a-b" },
    { "l/", "l/a/", "l/a/b" },     { "l/", "l/a/b", "l/a/b-c" },
    { "l/", "l/a/bz", "l/a/c/d" }, { "l/", "l/a/c", "l/a/c/d" },
    { "l/", "l/a/c/d", "l/a0" },   { "l/", "l/a/\xf4\x8f\xbf\xbf", "l/a0" },
    { "l/", "l/b", NULL },         { "l/", "z", NULL },
    { "", "l/b", "m/x" },          { "", "a", "l/a-b" },
    { "none/", NULL, NULL },       { "l/b/", NULL, NULL },
    { "l/a/c/d/e/", NULL, NULL },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GPtrArray) page = object_store_list (NULL, objects, rows[i].prefix, rows[i].after, 1, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (page->len, ==, rows[i].wanted != NULL);
      if (rows[i].wanted != NULL)
        g_assert_cmpstr (((ObjectInfo *) g_ptr_array_index (page, 0))->key, ==, rows[i].wanted);
    }
}

static gboolean
put_one (Ctx *ctx, gpointer data, guint index, GError **error)
{
  g_autofree char *key = g_strdup_printf ("many/%02u/%04u", index % 7, index);
  return object_store_put (ctx, data, key, "", 0, OBJECT_COMMIT_LAZY, error);
}

/* In any order: each once, in pages. */
static void
assert_lists_any (ObjectStore *objects, const char *prefix, guint n, guint n_pages)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autofree char *cursor = NULL;
  guint pages = 0;
  do
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GPtrArray) page = object_store_list_any (NULL, objects, prefix, &cursor, &error);
      g_assert_no_error (error);
      for (guint i = 0; i < page->len; i++)
        g_assert_true (g_hash_table_add (seen, g_strdup (((ObjectInfo *) g_ptr_array_index (page, i))->key)));
      pages++;
    }
  while (cursor != NULL);
  g_assert_cmpuint (g_hash_table_size (seen), ==, n);
  g_assert_cmpuint (pages, ==, n_pages);
}

static void
test_list_many (ObjectStore *objects)
{
  static const char *const two[] = { "many/00/0000", "many/06/0006" };
  g_autoptr (GString) wanted = g_string_new (NULL);
  g_autoptr (GError) error = NULL;
  fixture_assert_ok (object_store_each (NULL, objects, 1234, put_one, objects, &error), error);
  for (guint i = 0; i < 7; i++)
    for (guint j = i; j < 1234; j += 7)
      g_string_append_printf (wanted, "%smany/%02u/%04u", wanted->len > 0 ? " " : "", i, j);
  g_autofree char *by_100 = fixture_list (objects, "many/", object_store_is_far (objects) ? 500 : 100);
  g_assert_cmpstr (by_100, ==, wanted->str);
  g_autoptr (GPtrArray) capped = object_store_list (NULL, objects, "many/", NULL, 5000, &error);
  g_assert_cmpuint (capped->len, ==, 1000);
  assert_lists_any (objects, "many/", 1234, 2);
  assert_lists_any (objects, "none/", 0, 1);
  fixture_assert_ok (object_store_remove_many (NULL, objects, two, 2, &error), error);
  fixture_assert_ok (object_store_remove_many (NULL, objects, two, 2, &error), error); /* missing is fine */
  assert_lists_any (objects, "many/06/", 175, 1);
  fixture_assert_ok (object_store_remove_prefix (NULL, objects, "many/", &error), error);
  g_autofree char *left = fixture_list (objects, "", 10);
  g_assert_cmpstr (left, ==, "");
}

static void
test_replace_while_reading (ObjectStore *objects)
{
  g_autoptr (GError) error = NULL;
  char buffer[4] = "";
  fixture_put (objects, "t/x", "old");
  g_autoptr (Reader) reader = object_store_open (NULL, objects, "t/x", &error);
  fixture_put (objects, "t/x", "newer");
  fixture_assert_ok (reader_read_at (NULL, reader, 0, buffer, 2, &error), error);
  fixture_assert_ok (object_store_remove (NULL, objects, "t/x", &error), error);
  fixture_assert_ok (reader_read_at (NULL, reader, 2, buffer + 2, 1, &error), error);
  g_assert_cmpstr (buffer, ==, "old");
}

static void
test_if_absent (ObjectStore *objects)
{
  g_autoptr (GError) error = NULL;
  fixture_assert_ok (object_store_put (NULL, objects, "t/x", "1", 1, OBJECT_COMMIT_IF_ABSENT, &error), error);
  g_assert_false (object_store_put (NULL, objects, "t/x", "2", 1, OBJECT_COMMIT_IF_ABSENT, &error));
  fixture_assert_error (&error, AM_ERROR_ALREADY_EXISTS, NULL);
  g_autofree char *content = fixture_get (objects, "t/x");
  g_assert_cmpstr (content, ==, "1");
}

typedef struct {
  ObjectStore *objects;
  guint number;
  guint won;
} Racer;

static gpointer
race_if_absent (gpointer data)
{
  Racer *self = data;
  for (guint i = 0; i < n_rounds (self->objects, 100); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *key = g_strdup_printf ("race/%u/x", i);
      g_autofree char *mine = g_strdup_printf ("%u", self->number);
      if (object_store_put (NULL, self->objects, key, mine, strlen (mine),
                            OBJECT_COMMIT_IF_ABSENT | OBJECT_COMMIT_LAZY, &error))
        self->won++;
      else
        g_assert_error (error, AM_ERROR, AM_ERROR_ALREADY_EXISTS);
    }
  return NULL;
}

static void
test_if_absent_race (ObjectStore *objects)
{
  Racer racers[4];
  GThread *threads[4];
  guint total = 0;
  for (guint i = 0; i < 4; i++)
    {
      racers[i] = (Racer){ objects, i, 0 };
      threads[i] = g_thread_new ("racer", race_if_absent, &racers[i]);
    }
  for (guint i = 0; i < 4; i++)
    {
      g_thread_join (threads[i]);
      total += racers[i].won;
    }
  g_assert_cmpuint (total, ==, n_rounds (objects, 100));
}

static gboolean stop;

static gpointer
put_and_remove (gpointer data)
{
  while (!g_atomic_int_get (&stop))
    {
      g_autoptr (GError) error = NULL;
      object_store_put (NULL, data, "d/e/f/theirs", "x", 1, OBJECT_COMMIT_LAZY, &error);
      g_assert_no_error (error);
      object_store_remove (NULL, data, "d/e/f/theirs", &error);
      g_assert_no_error (error);
    }
  return NULL;
}

/* Removing an object may take its empty folders with it, never another's commit. */
static void
test_commit_beside_removal (ObjectStore *objects)
{
  GThread *threads[2];
  stop = FALSE;
  for (guint i = 0; i < 2; i++)
    threads[i] = g_thread_new ("remover", put_and_remove, objects);
  for (guint i = 0; i < n_rounds (objects, 500); i++)
    {
      g_autoptr (GError) error = NULL;
      fixture_assert_ok (
        object_store_put (NULL, objects, "d/e/f/ours", "x", 1, i % 5 > 0 ? OBJECT_COMMIT_LAZY : 0, &error), error);
      g_autofree char *content = fixture_get (objects, "d/e/f/ours");
      g_assert_cmpstr (content, ==, "x");
      fixture_assert_ok (object_store_remove (NULL, objects, "d/e/f/ours", &error), error);
    }
  g_atomic_int_set (&stop, TRUE);
  for (guint i = 0; i < 2; i++)
    g_thread_join (threads[i]);
}

static void
test_lazy (ObjectStore *objects)
{
  static const char *const keys[] = { "z/1/a", "z/2/b", "z/2/c" };
  g_autoptr (GError) error = NULL;
  for (gsize i = 0; i < G_N_ELEMENTS (keys); i++)
    fixture_assert_ok (object_store_put (NULL, objects, keys[i], "x", 1, OBJECT_COMMIT_LAZY, &error), error);
  fixture_assert_ok (object_store_sync (NULL, objects, keys, G_N_ELEMENTS (keys), &error), error);
  fixture_assert_ok (object_store_sync (NULL, objects, NULL, 0, &error), error);
  for (gsize i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      g_autofree char *content = fixture_get (objects, keys[i]);
      g_assert_cmpstr (content, ==, "x");
    }
}

static void
test_lazy_missing (ObjectStore *objects)
{
  static const char *const missing[] = { "z/1/a", "z/9/none" };
  g_autoptr (GError) error = NULL;
  fixture_assert_ok (object_store_put (NULL, objects, missing[0], "x", 1, OBJECT_COMMIT_LAZY, &error), error);
  g_assert_false (object_store_sync (NULL, objects, missing, G_N_ELEMENTS (missing), &error));
  fixture_assert_error (&error, AM_ERROR_NOT_FOUND, NULL);
}

/* More than any one request of an adapter's brings. */
static void
test_large (ObjectStore *objects)
{
  const gsize size = 20u << 20;
  static const guint64 offsets[] = { 0, (9u << 20) - 1, 9u << 20, (20u << 20) - 5000, 12345 };
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *bytes = g_malloc (size), *read = g_malloc (size);
  fixture_fill (BYTES_RANDOM, 1, bytes, size);
  g_autoptr (ObjectWriter) writer = object_store_create (NULL, objects, &error);
  for (gsize at = 0; at < size; at += 1u << 20)
    fixture_assert_ok (object_writer_append (NULL, writer, bytes + at, 1u << 20, &error), error);
  memset (bytes, 7, 56);
  fixture_assert_ok (object_writer_patch (NULL, writer, 0, bytes, 56, &error), error);
  fixture_assert_ok (object_writer_commit (NULL, writer, "t/large", OBJECT_COMMIT_DEFAULT, &error), error);
  g_autoptr (Reader) reader = object_store_open (NULL, objects, "t/large", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (reader->size_bytes, ==, size);
  for (gsize i = 0; i < G_N_ELEMENTS (offsets); i++)
    {
      fixture_assert_ok (reader_read_at (NULL, reader, offsets[i], read, 5000, &error), error);
      g_assert_cmpmem (read, 5000, bytes + offsets[i], 5000);
    }
  fixture_assert_ok (reader_read_at (NULL, reader, 0, read, size, &error), error);
  g_assert_cmpmem (read, size, bytes, size);
}

/* One that is told its key at once, of no bytes, of few, and of more than a part. */
static void
test_create_at (ObjectStore *objects)
{
  static const gsize sizes[] = { 0, 10, (16u << 20) + 7 };
  const gsize max = (16u << 20) + 7;
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *bytes = g_malloc (max);
  fixture_fill (BYTES_RANDOM, 1, bytes, max);
  for (gsize i = 0; i < G_N_ELEMENTS (sizes); i++)
    for (guint round = 0; round < 2; round++)
      {
        g_autoptr (ObjectWriter) writer = object_store_create_at (NULL, objects, "raw/u/x", &error);
        g_assert_no_error (error);
        for (gsize at = 0; at < sizes[i]; at += 7u << 20)
          fixture_assert_ok (object_writer_append (NULL, writer, bytes + at, MIN (7u << 20, sizes[i] - at), &error),
                             error);
        gboolean done = object_writer_commit (NULL, writer, "raw/u/x", OBJECT_COMMIT_IF_ABSENT, &error);
        g_assert_cmpint (done, ==, round == 0);
        if (!done)
          fixture_assert_error (&error, AM_ERROR_ALREADY_EXISTS, NULL);
        g_autoptr (GBytes) got = object_store_get (NULL, objects, "raw/u/x", max, &error);
        g_assert_no_error (error);
        g_assert_cmpmem (g_bytes_get_data (got, NULL), g_bytes_get_size (got), bytes, sizes[i]);
        if (round == 1)
          fixture_assert_ok (object_store_remove (NULL, objects, "raw/u/x", &error), error);
      }
  g_autoptr (ObjectWriter) dropped = object_store_create_at (NULL, objects, "raw/u/y", &error);
  fixture_assert_ok (object_writer_append (NULL, dropped, bytes, max, &error), error);
  gboolean can_patch = object_writer_patch (NULL, dropped, 0, "x", 1, NULL);
  g_assert_cmpint (can_patch, ==, !object_store_is_far (objects));
  g_clear_pointer (&dropped, object_writer_free);
  g_autofree char *left = fixture_list (objects, "", 10);
  g_assert_cmpstr (left, ==, "");
}

static void
test_cancelled (ObjectStore *objects)
{
  g_autoptr (Ctx) ctx = ctx_new ();
  g_autoptr (GError) error = NULL;
  ctx_cancel (ctx);
  g_assert_null (object_store_open (ctx, objects, "t/a", &error));
  fixture_assert_error (&error, AM_ERROR_CANCELLED, NULL);
  g_assert_null (object_store_create (ctx, objects, &error));
  fixture_assert_error (&error, AM_ERROR_CANCELLED, NULL);
  g_assert_null (object_store_list (ctx, objects, "", NULL, 1, &error));
  fixture_assert_error (&error, AM_ERROR_CANCELLED, NULL);
}

static void
test_key_below_key (ObjectStore *objects)
{
  g_autoptr (GError) error = NULL;
  fixture_put (objects, "t/x", "1");
  g_assert_false (object_store_put (NULL, objects, "t/x/y", "2", 1, OBJECT_COMMIT_DEFAULT, &error));
  fixture_assert_error (&error, AM_ERROR_FAILED_PRECONDITION, NULL);
  g_assert_false (object_store_put (NULL, objects, "t/x/y/z", "2", 1, OBJECT_COMMIT_DEFAULT, &error));
  fixture_assert_error (&error, AM_ERROR_FAILED_PRECONDITION, NULL);
  fixture_put (objects, "u/x/y", "1");
  g_assert_false (object_store_put (NULL, objects, "u/x", "2", 1, OBJECT_COMMIT_DEFAULT, &error));
  fixture_assert_error (&error, AM_ERROR_FAILED_PRECONDITION, NULL);
  g_assert_null (object_store_open (NULL, objects, "u/x", &error));
  fixture_assert_error (&error, AM_ERROR_NOT_FOUND, NULL);
  fixture_assert_ok (object_store_remove (NULL, objects, "u/x", &error), error);
  g_autofree char *keys = fixture_list (objects, "", 10);
  g_assert_cmpstr (keys, ==, "t/x u/x/y");
}

typedef struct {
  ObjectStore *objects;
  gboolean committed;
} Committer;

static gpointer
commit_one (gpointer data)
{
  Committer *self = data;
  fixture_put (self->objects, "t/late", "x");
  g_atomic_int_set (&self->committed, TRUE);
  return NULL;
}

static void
test_lock_commits (ObjectStore *objects)
{
  g_autoptr (GError) error = NULL;
  Committer committer = { objects, FALSE };
  g_autoptr (ObjectLock) lock = object_store_lock (NULL, objects, OBJECT_LOCK_COMMITS, &error);
  g_assert_no_error (error);
  GThread *thread = g_thread_new ("commit", commit_one, &committer);
  g_usleep (50000);
  g_assert_false (g_atomic_int_get (&committer.committed));
  g_assert_null (fixture_get (objects, "t/late"));
  /* Waiting ends with the context. */
  g_autoptr (Ctx) hurried = ctx_new_child (NULL, 30);
  g_assert_false (object_store_put (hurried, objects, "t/never", "x", 1, OBJECT_COMMIT_DEFAULT, &error));
  fixture_assert_error (&error, AM_ERROR_DEADLINE_EXCEEDED, NULL);
  g_assert_null (object_store_lock (hurried, objects, OBJECT_LOCK_COMMITS, &error));
  fixture_assert_error (&error, AM_ERROR_DEADLINE_EXCEEDED, NULL);
  g_clear_pointer (&lock, object_lock_free);
  g_thread_join (thread);
  g_autofree char *content = fixture_get (objects, "t/late");
  g_assert_cmpstr (content, ==, "x");
}

static const Row rows[] = {
  { "basics", test_basics },
  { "ranges", test_ranges },
  { "writer", test_writer },
  { "keys", test_keys },
  { "list", test_list },
  { "list-many", test_list_many },
  { "replace-while-reading", test_replace_while_reading },
  { "if-absent", test_if_absent },
  { "if-absent-race", test_if_absent_race },
  { "commit-beside-removal", test_commit_beside_removal },
  { "lazy", test_lazy },
  { "lazy-missing", test_lazy_missing, NEEDS_LAZY },
  { "cancelled", test_cancelled },
  { "large", test_large },
  { "create-at", test_create_at },
  { "key-below-key", test_key_below_key, NEEDS_TREE },
  { "lock-commits", test_lock_commits, NEEDS_LOCKS },
};

static void
run_fs (StorageFixture *self, gconstpointer data)
{
  ((const Row *) data)->func (self->fs);
}

static void
run_fault (StorageFixture *self, gconstpointer data)
{
  ((const Row *) data)->func (self->objects);
}

/* A place of its own in the bucket that the environment names: tests/s3 starts a server and makes one. */
static void
run_s3 (gconstpointer data)
{
  char uuid[37];
  g_autoptr (GError) error = NULL;
  text_uuid (uuid);
  g_auto (GStrv) parts = g_strsplit (g_getenv (S3_VARIABLE), "?", 2);
  g_autofree char *url = g_strdup_printf ("%s/%s?%s", parts[0], uuid, parts[1]);
  g_autoptr (ObjectStore) objects = object_store_s3_new (NULL, url, TRUE, &error);
  g_assert_no_error (error);
  ((const Row *) data)->func (objects);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (gsize i = 0; g_getenv (S3_VARIABLE) != NULL && i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *name = g_strdup_printf ("/object-store/s3/%s", rows[i].name);
      if (rows[i].needs == 0)
        g_test_add_data_func (name, &rows[i], run_s3);
    }
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *fs = g_strdup_printf ("/object-store/fs/%s", rows[i].name);
      g_autofree char *fault = g_strdup_printf ("/object-store/fault/%s", rows[i].name);
      g_test_add (fs, StorageFixture, &rows[i], storage_fixture_set_up, run_fs, storage_fixture_tear_down);
      g_test_add (fault, StorageFixture, &rows[i], storage_fixture_set_up, run_fault, storage_fixture_tear_down);
    }
  return g_test_run ();
}
