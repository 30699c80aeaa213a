#include "base/blake3.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_BYTES ((1u << 20) + 5000)

static guint8 *data;
static guint8 *fence; /* behind it no byte may be read */

/* The first `size` bytes of `data`, ending at the fence: the kernels for many lanes are not watched by a sanitizer. */
static const guint8 *
at_fence (gsize size)
{
  return memcpy (fence - size, data, size);
}

static void
raise_fence (void)
{
  gsize page = (gsize) sysconf (_SC_PAGESIZE);
  gsize room = (MAX_BYTES + page - 1) / page * page;
  guint8 *pages = mmap (NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  g_assert_true (pages != MAP_FAILED);
  fence = pages + room;
  g_assert_cmpint (mprotect (fence, page, PROT_NONE), ==, 0);
}

/* FALSE, and the test is skipped, where the CPU does not have them. */
static gboolean
use_lanes (gconstpointer lanes)
{
  if (blake3_use_lanes (GPOINTER_TO_UINT (lanes)) == GPOINTER_TO_UINT (lanes))
    return TRUE;
  g_test_skip ("this CPU has fewer lanes");
  return FALSE;
}

static void
expect (const guint8 actual[BLAKE3_SIZE], const char *expected)
{
  g_autoptr (GString) hex = g_string_new (NULL);
  for (guint i = 0; i < BLAKE3_SIZE; i++)
    g_string_append_printf (hex, "%02x", actual[i]);
  g_assert_cmpstr (hex->str, ==, expected);
}

/* Input byte i is i modulo 251, as in the published test vectors; the sizes are theirs and some more. */
static const struct {
  gsize size;
  const char *hash;
} vectors[] = {
  { 0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262" },
  { 1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213" },
  { 63, "e9bc37a594daad83be9470df7f7b3798297c3d834ce80ba85d6e207627b7db7b" },
  { 64, "4eed7141ea4a5cd4b788606bd23f46e212af9cacebacdc7d1f4c6dc7f2511b98" },
  { 65, "de1e5fa0be70df6d2be8fffd0e99ceaa8eb6e8c93a63f2d8d1c30ecb6b263dee" },
  { 1023, "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11" },
  { 1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7" },
  { 1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444" },
  { 2048, "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a" },
  { 2049, "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b6879522563030" },
  { 3072, "b98cb0ff3623be03326b373de6b9095218513e64f1ee2edd2525c7ad1e5cffd2" },
  { 3073, "7124b49501012f81cc7f11ca069ec9226cecb8a2c850cfe644e327d22d3e1cd3" },
  { 4096, "015094013f57a5277b59d8475c0501042c0b642e531b0a1c8f58d2163229e969" },
  { 5120, "9cadc15fed8b5d854562b26a9536d9707cadeda9b143978f319ab34230535833" },
  { 6144, "3e2e5b74e048f3add6d21faab3f83aa44d3b2278afb83b80b3c35164ebeca205" },
  { 7168, "61da957ec2499a95d6b8023e2b0e604ec7f6b50e80a9678b89d2628e99ada77a" },
  { 8192, "aae792484c8efe4f19e2ca7d371d8c467ffb10748d8a5a1ae579948f718a2a63" },
  { 8193, "bab6c09cb8ce8cf459261398d2e7aef35700bf488116ceb94a36d0f5f1b7bc3b" },
  { 16384, "f875d6646de28985646f34ee13be9a576fd515f76b5b0a26bb324735041ddde4" },
  { 31744, "62b6960e1a44bcc1eb1a611a8d6235b6b4b78f32e7abc4fb4c6cdcce94895c47" },
  { 102400, "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085" },
  { 262144, "d57dc906e20d3fd326ffaa85535500486f46a0979f5a323f028dcabfd381fd4a" },
  { 262145, "531c319935cf78f34869faebd865e5748266b1799039103bfb851a680d9ed30c" },
  { 524288, "b467afa334cd7dedd76e3a9a4b0e8a5ed278713f2f4e220a682aa30c7fcd140b" },
  { 1048577, "2f053cd7472cf0cd2f9adaf45c1180255b91b9a865404a63671a0ee5f792ed33" },
};

static void
test_vectors (gconstpointer lanes)
{
  for (guint i = 0; use_lanes (lanes) && i < G_N_ELEMENTS (vectors); i++)
    {
      guint8 actual[BLAKE3_SIZE];
      blake3_of (at_fence (vectors[i].size), vectors[i].size, actual);
      expect (actual, vectors[i].hash);
    }
}

/* In pieces of every kind: the same as at once, leaf by leaf. */
static void
test_pieces (gconstpointer lanes)
{
  for (guint i = 0; use_lanes (lanes) && i < 400; i++)
    {
      Blake3 state;
      guint8 whole[BLAKE3_SIZE], pieces[BLAKE3_SIZE];
      gsize size = g_test_rand_int_range (0, i % 10 == 0 ? MAX_BYTES : 40000);
      blake3_use_lanes (1);
      blake3_of (data, size, whole);
      blake3_use_lanes (GPOINTER_TO_UINT (lanes));
      blake3_init (&state);
      for (gsize done = 0; done < size;)
        {
          gsize n = g_test_rand_int_range (0, i % 3 == 0 ? 1500 : 300000);
          n = i % 5 == 0 ? n / 1024 * 1024 : n;
          n = MIN (MAX (n, 1), size - done);
          blake3_update (&state, memcpy (fence - n, data + done, n), n);
          done += n;
          if (i % 4 == 0)
            blake3_peek (&state, pieces); /* changes nothing */
        }
      blake3_peek (&state, pieces);
      g_assert_cmpmem (pieces, BLAKE3_SIZE, whole, BLAKE3_SIZE);
    }
}

/* Every length around the sizes of blocks, leaves and small trees. */
static void
test_lengths (gconstpointer lanes)
{
  for (gsize size = 0; use_lanes (lanes) && size < 20 * BLAKE3_LEAF_BYTES; size += 31)
    {
      guint8 narrow[BLAKE3_SIZE], wide[BLAKE3_SIZE];
      blake3_use_lanes (1);
      blake3_of (data, size, narrow);
      blake3_use_lanes (GPOINTER_TO_UINT (lanes));
      blake3_of (at_fence (size), size, wide);
      g_assert_cmpmem (narrow, BLAKE3_SIZE, wide, BLAKE3_SIZE);
    }
}

int
main (int argc, char **argv)
{
  static const guint lanes[] = { 1, 4, 8, 16 };
  g_test_init (&argc, &argv, NULL);
  raise_fence ();
  data = g_malloc (MAX_BYTES);
  for (gsize i = 0; i < MAX_BYTES; i++)
    data[i] = (guint8) (i % 251);
  for (guint i = 0; i < G_N_ELEMENTS (lanes); i++)
    {
      g_autofree char *vector_name = g_strdup_printf ("/blake3/vectors/%u", lanes[i]);
      g_autofree char *piece_name = g_strdup_printf ("/blake3/pieces/%u", lanes[i]);
      g_autofree char *length_name = g_strdup_printf ("/blake3/lengths/%u", lanes[i]);
      g_test_add_data_func (vector_name, GUINT_TO_POINTER (lanes[i]), test_vectors);
      g_test_add_data_func (piece_name, GUINT_TO_POINTER (lanes[i]), test_pieces);
      g_test_add_data_func (length_name, GUINT_TO_POINTER (lanes[i]), test_lengths);
    }
  int status = g_test_run ();
  g_free (data);
  return status;
}
