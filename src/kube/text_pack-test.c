#include "kube/text_pack.h"

#include <string.h>

#define N_TEXTS 200

typedef struct {
  GBytes *kept;
  gboolean is_packed;
} Kept;

static void
kept_clear (gpointer data)
{
  g_bytes_unref (((Kept *) data)->kept);
}

static void
put (TextPack *pack, GArray *all, const char *text, gsize size)
{
  gsize kept_size = 0;
  Kept one = { 0 };
  gconstpointer kept = text_pack_put (pack, text, size, &kept_size, &one.is_packed);
  g_assert_cmpuint (kept_size, <=, size);
  one.kept = g_bytes_new (kept, kept_size);
  g_array_append_val (all, one);
}

static void
check (TextPack *pack, const Kept *one, const char *text, gsize size)
{
  gsize kept_size = 0;
  gconstpointer kept = g_bytes_get_data (one->kept, &kept_size);
  g_assert_true (one->is_packed || kept_size == size);
  gconstpointer again = one->is_packed ? text_pack_get (pack, kept, kept_size, size) : kept;
  g_assert_cmpmem (again, size, text, size);
}

static char *
object (guint i)
{
  g_autofree char *digest = g_compute_checksum_for_data (G_CHECKSUM_SHA256, (const guchar *) &i, sizeof i);
  return g_strdup_printf (
    "{\"metadata\":{\"name\":\"model-%u\",\"namespace\":\"team\",\"uid\":\"%.12s\"},\"status\":{\"phase\":"
    "\"Ready\",\"progress\":\"100%%\",\"artifact\":{\"kind\":\"OCI\",\"digest\":\"sha256:%s\"},\"conditions\":["
    "{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"Ready\",\"message\":\"the model may be used\"}]}}",
    i, digest, digest);
}

static void
test_alike (void)
{
  g_autoptr (TextPack) pack = text_pack_new ();
  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (Kept));
  g_array_set_clear_func (all, kept_clear);
  gsize total = 0, kept = 0;
  for (guint i = 0; i < N_TEXTS; i++)
    {
      g_autofree char *text = object (i);
      put (pack, all, text, strlen (text));
      total += strlen (text);
      kept += g_bytes_get_size (g_array_index (all, Kept, i).kept);
    }
  g_assert_cmpuint (kept, <, total / 2);
  for (guint i = N_TEXTS; i-- > 0;)
    {
      g_autofree char *text = object (i);
      check (pack, &g_array_index (all, Kept, i), text, strlen (text));
    }
}

/* Whatever the sizes, the order and the content. */
static void
test_any (void)
{
  g_autoptr (TextPack) pack = text_pack_new ();
  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (Kept));
  g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  g_autoptr (GRand) random = g_rand_new_with_seed (5);
  g_array_set_clear_func (all, kept_clear);
  static const gsize sizes[] = { 1, 0, 3, 7000, 20, 1 << 20, 2, 500, 0, 100, 65536 };
  for (gsize i = 0; i < 3 * G_N_ELEMENTS (sizes); i++)
    {
      gsize size = sizes[i % G_N_ELEMENTS (sizes)];
      gboolean is_noise = i % 2 == 0;
      char *bytes = g_malloc (size + 1);
      for (gsize at = 0; at < size; at++)
        bytes[at] = is_noise ? (char) g_rand_int_range (random, 0, 256) : 'a';
      g_ptr_array_add (texts, g_bytes_new_take (bytes, size));
      put (pack, all, bytes, size);
    }
  for (guint i = 0; i < texts->len; i++)
    {
      gsize size = 0;
      const char *text = g_bytes_get_data (texts->pdata[i], &size);
      check (pack, &g_array_index (all, Kept, i), text != NULL ? text : "", size);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/text-pack/alike", test_alike);
  g_test_add_func ("/text-pack/any", test_any);
  return g_test_run ();
}
