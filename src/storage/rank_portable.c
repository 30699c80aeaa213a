/* Eight symbols at a time, by tables, for CPUs without the instructions that rank_kernels.c wants. */
#include "storage/rank_kernels.h"

#include "storage/wire.h"

typedef struct {
  guint8 gather[256][256];  /* [mask][bits]: the bits under the mask, side by side */
  guint8 scatter[256][256]; /* [mask][bits]: the way back */
  guint64 spread[256];      /* bit i becomes byte i */
} Tables;

static gpointer
make_tables (gpointer data)
{
  Tables *self = g_new0 (Tables, 1); /* for the life of the process */
  for (guint mask = 0; mask < 256; mask++)
    for (guint bits = 0; bits < 256; bits++)
      for (guint i = 0, n = 0; i < 8; i++)
        if ((mask >> i & 1) != 0)
          {
            self->gather[mask][bits] |= (guint8) ((bits >> i & 1) << n);
            self->scatter[mask][bits] |= (guint8) ((bits >> n & 1) << i);
            n++;
          }
  for (guint bits = 0; bits < 256; bits++)
    for (guint i = 0; i < 8; i++)
      self->spread[bits] |= (guint64) (bits >> i & 1) << 8 * i;
  return self;
}

static const Tables *
tables (void)
{
  static GOnce once = G_ONCE_INIT;
  return g_once (&once, make_tables, NULL);
}

static void
write_bits (RankBits *self, guint bits, guint n)
{
  guint8 *byte = self->bytes + self->n / 8;
  guint shift = self->n % 8;
  guint word = (shift == 0 ? 0 : *byte) | bits << shift;
  byte[0] = (guint8) word;
  byte[1] = (guint8) (word >> 8);
  self->n += n;
}

void
rank_encode_portable (RankEncoding *self, const guint8 *plane, gsize n_groups)
{
  const Tables *with = tables ();
  guint8 rank_of[128];
  memset (rank_of, RANK_COUNT, sizeof rank_of);
  for (guint k = 0; k < RANK_COUNT; k++)
    rank_of[self->ranks[k]] = (guint8) k;
  for (gsize done = 0; done < 64 * n_groups; done += 8)
    {
      guint64 matches = 0; /* byte k: which symbols are of rank k */
      guint signs = 0, left = 0xff;
      for (guint i = 0; i < 8; i++)
        {
          matches |= (guint64) 1 << (8 * rank_of[plane[done + i] & 0x7f] + i);
          signs |= (guint) (plane[done + i] >> 7) << i;
        }
      write_bits (&self->signs, signs, 8);
      for (guint k = 0; k < RANK_COUNT && left != 0; k++, matches >>= 8)
        {
          guint match = matches & 0xff;
          write_bits (&self->levels[k], with->gather[left][match], (guint) __builtin_popcount (left));
          left &= ~match;
        }
      for (; left != 0 && self->n_escapes <= self->max_escapes; left &= left - 1)
        self->escapes[self->n_escapes++] = plane[done + (guint) __builtin_ctz (left)] & 0x7f;
      self->is_full = self->n_escapes > self->max_escapes;
      if (self->is_full)
        return;
    }
}

/* Eight bits from bit `at` on. */
static guint
read_bits (const guint8 *bytes, gsize at)
{
  const guint8 *byte = bytes + at / 8;
  return ((guint) byte[0] | (guint) byte[1] << 8) >> at % 8 & 0xff;
}

gboolean
rank_decode_portable (RankDecoding *self, guint8 *plane, gsize n_groups)
{
  const Tables *with = tables ();
  for (gsize done = 0; done < 64 * n_groups; done += 8)
    {
      guint64 symbols = with->spread[self->signs[done / 8]] << 7;
      guint left = 0xff;
      for (guint k = 0; k < RANK_COUNT && left != 0; k++)
        {
          RankLevel *level = &self->levels[k];
          guint match = with->scatter[left][read_bits (level->bytes, level->at)];
          level->at += (guint) __builtin_popcount (left);
          left ^= match;
          symbols |= with->spread[match] * self->ranks[k];
        }
      wire_put_u64 (plane + done, symbols);
      for (; left != 0; left &= left - 1)
        {
          if (self->escapes_at == self->n_escapes)
            return FALSE;
          plane[done + (guint) __builtin_ctz (left)] |= self->escapes[self->escapes_at++];
        }
    }
  return TRUE;
}
