/* Stripes of a chunk: splitting numbers into byte planes, coding them, and the way back. */
#include "storage/chunk_frame.h"

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "storage/rank_coder.h"
#include "storage/stripe_sum.h"
#include "storage/wire.h"

#define MAX_PLANES 4
#define RAW_FLAG 0x80000000u
#define RANK_FLAG 0x40000000u
#define PLANE_SIZE_MASK 0x3fffffffu
#define PROBE_BYTES (32u << 10)
/* A plane is worth coding when the probe saves at least 1/32 of it. */
#define WORTH_SHIFT 5
/* The rank code is so much faster that it may lose so much of a plane to the entropy coder. */
#define RANK_LOSS_SHIFT 6
#define PLANE_BYTES (CHUNK_STRIPE_BYTES + 64)

static const guint encoding_planes[] = { [CHUNK_ENCODING_NONE] = 0,
                                         [CHUNK_ENCODING_ZSTD] = 1,
                                         [CHUNK_ENCODING_SPLIT2] = 2,
                                         [CHUNK_ENCODING_SPLIT4] = 4 };

typedef enum { CODER_ENTROPY, CODER_MATCHES, N_ZSTD_CODERS, CODER_RANKS = N_ZSTD_CODERS, CODER_NONE } Coder;

struct ChunkEncoder {
  ZSTD_CCtx *zstd[N_ZSTD_CODERS];
  guint8 *rank_scratch;
  guint unit_bytes;
  gboolean probed;
  ChunkEncoding encoding;
  Coder coders[MAX_PLANES]; /* of each plane */
  guint8 *planes;           /* MAX_PLANES x PLANE_BYTES */
  guint8 *out;
};

struct ChunkDecoder {
  ZSTD_DCtx *zstd;
  guint8 *planes;
};

/* Bytes of plane `plane` of a stripe of `size` bytes. */
static gsize
plane_size (guint n_planes, guint plane, gsize size)
{
  return (size + n_planes - 1 - plane) / n_planes;
}

#if defined(__x86_64__)
__attribute__ ((target ("avx2"))) static gsize
split2_fast (const guint8 *in, gsize size, guint8 *low, guint8 *high)
{
  const __m256i mask = _mm256_set1_epi16 (0x00ff);
  gsize n = size / 64;
  for (gsize i = 0; i < n; i++)
    {
      __m256i a = _mm256_loadu_si256 ((const __m256i *) (in + 64 * i));
      __m256i b = _mm256_loadu_si256 ((const __m256i *) (in + 64 * i + 32));
      __m256i l = _mm256_packus_epi16 (_mm256_and_si256 (a, mask), _mm256_and_si256 (b, mask));
      __m256i h = _mm256_packus_epi16 (_mm256_srli_epi16 (a, 8), _mm256_srli_epi16 (b, 8));
      _mm256_storeu_si256 ((__m256i *) (low + 32 * i), _mm256_permute4x64_epi64 (l, 0xd8));
      _mm256_storeu_si256 ((__m256i *) (high + 32 * i), _mm256_permute4x64_epi64 (h, 0xd8));
    }
  return 64 * n;
}

__attribute__ ((target ("avx2"))) static gsize
join2_fast (const guint8 *low, const guint8 *high, gsize size, guint8 *out)
{
  gsize n = size / 64;
  for (gsize i = 0; i < n; i++)
    {
      __m256i l = _mm256_permute4x64_epi64 (_mm256_loadu_si256 ((const __m256i *) (low + 32 * i)), 0xd8);
      __m256i h = _mm256_permute4x64_epi64 (_mm256_loadu_si256 ((const __m256i *) (high + 32 * i)), 0xd8);
      _mm256_storeu_si256 ((__m256i *) (out + 64 * i), _mm256_unpacklo_epi8 (l, h));
      _mm256_storeu_si256 ((__m256i *) (out + 64 * i + 32), _mm256_unpackhi_epi8 (l, h));
    }
  return 64 * n;
}

static gboolean
has_avx2 (void)
{
  return __builtin_cpu_supports ("avx2");
}
#else
static gsize
split2_fast (const guint8 *in, gsize size, guint8 *low, guint8 *high)
{
  return 0;
}

static gsize
join2_fast (const guint8 *low, const guint8 *high, gsize size, guint8 *out)
{
  return 0;
}

static gboolean
has_avx2 (void)
{
  return FALSE;
}
#endif

/* `planes[p]` points at where plane p is to lie. */
static void
split_planes (guint n_planes, const guint8 *in, gsize size, guint8 *const planes[MAX_PLANES])
{
  gsize done = 0;
  if (n_planes == 1)
    {
      memcpy (planes[0], in, size);
      return;
    }
  if (n_planes == 2 && has_avx2 ())
    done = split2_fast (in, size, planes[0], planes[1]);
  if (n_planes == 4)
    {
      guint8 *a = planes[0], *b = planes[1], *c = planes[2], *d = planes[3];
      for (; done + 4 <= size; done += 4)
        {
          a[done / 4] = in[done];
          b[done / 4] = in[done + 1];
          c[done / 4] = in[done + 2];
          d[done / 4] = in[done + 3];
        }
    }
  for (; done < size; done++)
    planes[done % n_planes][done / n_planes] = in[done];
}

/* `planes[p]` points at plane p wherever it lies. */
static void
join_planes (guint n_planes, const guint8 *const planes[MAX_PLANES], gsize size, guint8 *out)
{
  gsize done = 0;
  if (n_planes == 2 && has_avx2 ())
    done = join2_fast (planes[0], planes[1], size, out);
  if (n_planes == 4)
    {
      const guint8 *a = planes[0], *b = planes[1], *c = planes[2], *d = planes[3];
      for (gsize i = 0; i < size / 4; i++)
        wire_put_u32 (out + 4 * i,
                      (guint32) a[i] | (guint32) b[i] << 8 | (guint32) c[i] << 16 | (guint32) d[i] << 24);
      done = size / 4 * 4;
    }
  for (; done < size; done++)
    out[done] = planes[done % n_planes][done / n_planes];
}

/* Exponent planes want entropy coding and no matches; literal compression must be forced, because
 * the fast strategies switch it off by themselves (storage.md gives what was measured). */
static ZSTD_CCtx *
coder_new (Coder coder)
{
  ZSTD_CCtx *zstd = ZSTD_createCCtx ();
  if (zstd == NULL)
    g_error ("out of memory");
  if (coder == CODER_MATCHES)
    {
      ZSTD_CCtx_setParameter (zstd, ZSTD_c_compressionLevel, 1);
      return zstd;
    }
  ZSTD_CCtx_setParameter (zstd, ZSTD_c_strategy, ZSTD_fast);
  ZSTD_CCtx_setParameter (zstd, ZSTD_c_minMatch, 7);
  ZSTD_CCtx_setParameter (zstd, ZSTD_c_hashLog, 6);
  ZSTD_CCtx_setParameter (zstd, ZSTD_c_targetLength, 4096);
  ZSTD_CCtx_setParameter (zstd, ZSTD_c_literalCompressionMode, ZSTD_ps_enable);
  return zstd;
}

ChunkEncoder *
chunk_encoder_new (void)
{
  ChunkEncoder *self = g_new0 (ChunkEncoder, 1);
  self->planes = g_malloc (MAX_PLANES * PLANE_BYTES);
  self->out = g_malloc (CHUNK_STRIPE_OVERHEAD + CHUNK_STRIPE_BYTES + MAX_PLANES * 64);
  return self;
}

void
chunk_encoder_free (ChunkEncoder *self)
{
  if (self == NULL)
    return;
  for (guint i = 0; i < N_ZSTD_CODERS; i++)
    ZSTD_freeCCtx (self->zstd[i]);
  g_free (self->rank_scratch);
  g_free (self->planes);
  g_free (self->out);
  g_free (self);
}

void
chunk_encoder_begin (ChunkEncoder *self, guint unit_bytes)
{
  self->unit_bytes = unit_bytes;
  self->probed = FALSE;
  self->encoding = CHUNK_ENCODING_NONE;
}

ChunkEncoding
chunk_encoder_encoding (const ChunkEncoder *self)
{
  return self->encoding;
}

/* Stored size of one plane, or 0 when it does not shrink: the room given is one byte too small for that. */
static gsize
code_plane (ChunkEncoder *self, Coder coder, const guint8 *plane, gsize size, guint8 *out)
{
  if (coder == CODER_NONE || size < 2)
    return 0;
  if (coder == CODER_RANKS)
    {
      if (self->rank_scratch == NULL)
        self->rank_scratch = g_malloc (RANK_SCRATCH_BYTES);
      return rank_encode (plane, size, out, size - 1, self->rank_scratch);
    }
  if (self->zstd[coder] == NULL)
    self->zstd[coder] = coder_new (coder);
  gsize coded = ZSTD_compress2 (self->zstd[coder], out, size - 1, plane, size);
  return ZSTD_isError (coded) ? 0 : coded;
}

/* Whether the plane is one of signs and exponents, and this CPU codes it fast. */
static gboolean
ranks_fit (Coder coder, guint n_planes, guint plane)
{
  return coder == CODER_ENTROPY && n_planes > 1 && plane == n_planes - 1 && rank_coder_speed () != RANK_PORTABLE;
}

typedef struct {
  ChunkEncoding encoding;
  Coder coder;
} Candidate;

/* What to try for numbers of a width; the first row of a width wins a draw. */
static const struct {
  guint unit_bytes;
  Candidate candidate;
} candidates[] = {
  { 2, { CHUNK_ENCODING_SPLIT2, CODER_ENTROPY } }, { 4, { CHUNK_ENCODING_SPLIT4, CODER_ENTROPY } },
  { 1, { CHUNK_ENCODING_ZSTD, CODER_ENTROPY } },   { 8, { CHUNK_ENCODING_ZSTD, CODER_MATCHES } },
  { 8, { CHUNK_ENCODING_SPLIT4, CODER_ENTROPY } }, { 0, { CHUNK_ENCODING_ZSTD, CODER_MATCHES } },
  { 0, { CHUNK_ENCODING_SPLIT2, CODER_ENTROPY } }, { 0, { CHUNK_ENCODING_SPLIT4, CODER_ENTROPY } },
};

/* Bytes a plane of the sample saves with what suits it best: `coder`, the rank code, or none. */
static gsize
probe_plane (ChunkEncoder *self, Coder coder, guint n_planes, guint plane, gsize size, Coder *out_coder)
{
  const guint8 *bytes = self->planes + plane * PLANE_BYTES;
  gsize n = plane_size (n_planes, plane, size), best = n;
  gsize coded = code_plane (self, coder, bytes, n, self->out);
  gsize ranked = ranks_fit (coder, n_planes, plane) ? code_plane (self, CODER_RANKS, bytes, n, self->out) : 0;
  *out_coder = CODER_NONE;
  if (coded != 0 && n - coded >= n >> WORTH_SHIFT)
    {
      best = coded;
      *out_coder = coder;
    }
  if (ranked != 0 && n - ranked >= n >> WORTH_SHIFT && ranked <= best + (n >> RANK_LOSS_SHIFT))
    {
      best = ranked;
      *out_coder = CODER_RANKS;
    }
  return n - best;
}

/* Bytes a candidate saves on the sample. */
static gsize
probe_candidate (ChunkEncoder *self, const Candidate *candidate, const guint8 *sample, gsize size,
                 Coder out_coders[MAX_PLANES])
{
  guint n_planes = encoding_planes[candidate->encoding];
  gsize saved = 0;
  split_planes (n_planes, sample, size,
                (guint8 *const[MAX_PLANES]){ self->planes, self->planes + PLANE_BYTES, self->planes + 2 * PLANE_BYTES,
                                             self->planes + 3 * PLANE_BYTES });
  for (guint p = 0; p < n_planes; p++)
    saved += probe_plane (self, candidate->coder, n_planes, p, size, &out_coders[p]);
  return saved;
}

static void
probe (ChunkEncoder *self, const guint8 *data, gsize size)
{
  /* The middle of the stripe stands for the chunk: starts are often zeros. */
  gsize n = MIN (size, PROBE_BYTES);
  gsize start = (size - n) / 2 & ~(gsize) 7;
  gsize best = 0;
  self->probed = TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (candidates); i++)
    {
      Coder coders[MAX_PLANES] = { 0 };
      if (candidates[i].unit_bytes != self->unit_bytes)
        continue;
      gsize saved = probe_candidate (self, &candidates[i].candidate, data + start, n, coders);
      if (saved <= best)
        continue;
      best = saved;
      self->encoding = candidates[i].candidate.encoding;
      memcpy (self->coders, coders, sizeof coders);
    }
}

/* Where each plane is split to: those in front that are kept raw to their place in the stripe, the others to where the
 * coder takes them from. */
static void
place_planes (ChunkEncoder *self, guint n_planes, gsize size, guint8 *out, guint8 *planes[MAX_PLANES])
{
  gboolean is_known = TRUE; /* where the plane will lie */
  for (guint p = 0; p < n_planes; p++)
    {
      is_known = is_known && self->coders[p] == CODER_NONE;
      planes[p] = is_known ? out : self->planes + p * PLANE_BYTES;
      out += plane_size (n_planes, p, size);
    }
}

gsize
chunk_encoder_stripe_into (ChunkEncoder *self, const guint8 *data, gsize size, guint8 *out)
{
  guint8 *planes[MAX_PLANES];
  g_assert (size > 0 && size <= CHUNK_STRIPE_BYTES);
  if (!self->probed)
    probe (self, data, size);
  guint n_planes = encoding_planes[self->encoding];
  gsize n = 8 + 4 * n_planes;
  wire_put_u64 (out, stripe_sum (data, size));
  if (n_planes == 0)
    {
      memcpy (out + n, data, size);
      return n + size;
    }
  place_planes (self, n_planes, size, out + n, planes);
  split_planes (n_planes, data, size, planes);
  for (guint p = 0; p < n_planes; p++)
    {
      gsize raw = plane_size (n_planes, p, size);
      gsize coded = code_plane (self, self->coders[p], planes[p], raw, out + n);
      guint32 flag = coded == 0 ? RAW_FLAG : self->coders[p] == CODER_RANKS ? RANK_FLAG : 0;
      wire_put_u32 (out + 8 + 4 * p, (guint32) (coded != 0 ? coded : raw) | flag);
      if (coded == 0 && planes[p] != out + n)
        memcpy (out + n, planes[p], raw);
      n += coded != 0 ? coded : raw;
    }
  return n;
}

const guint8 *
chunk_encoder_stripe (ChunkEncoder *self, const guint8 *data, gsize size, gsize *out_size)
{
  *out_size = chunk_encoder_stripe_into (self, data, size, self->out);
  return self->out;
}

gsize
chunk_stripe_prefix_size (ChunkEncoding encoding)
{
  return 8 + 4 * encoding_planes[encoding];
}

gsize
chunk_stripe_stored_size (ChunkEncoding encoding, const guint8 *prefix, gsize decoded_size)
{
  guint n_planes = encoding_planes[encoding];
  if (n_planes == 0)
    return 8 + decoded_size;
  gsize total = 8 + 4 * n_planes;
  for (guint p = 0; p < n_planes; p++)
    {
      guint32 word = wire_get_u32 (prefix + 8 + 4 * p);
      gsize raw = plane_size (n_planes, p, decoded_size);
      gsize stored = word & PLANE_SIZE_MASK;
      if ((word & RAW_FLAG) != 0 ? stored != raw || (word & RANK_FLAG) != 0 : stored == 0 || stored >= raw)
        return 0;
      total += stored;
    }
  return total;
}

ChunkDecoder *
chunk_decoder_new (void)
{
  ChunkDecoder *self = g_new0 (ChunkDecoder, 1);
  self->zstd = ZSTD_createDCtx ();
  if (self->zstd == NULL)
    g_error ("out of memory");
  self->planes = g_malloc (MAX_PLANES * PLANE_BYTES);
  return self;
}

void
chunk_decoder_free (ChunkDecoder *self)
{
  if (self == NULL)
    return;
  ZSTD_freeDCtx (self->zstd);
  g_free (self->planes);
  g_free (self);
}

static gboolean
fail_corrupt (GError **error, const char *what)
{
  return am_fail (error, AM_ERROR_DATA_LOSS, "ChunkCorrupt", "damaged chunk: %s", what);
}

static gboolean
decode_plane (ChunkDecoder *self, guint32 word, const guint8 *stored, guint8 *out, gsize size)
{
  gsize n = word & PLANE_SIZE_MASK;
  return (word & RANK_FLAG) != 0 ? rank_decode (stored, n, out, size)
                                 : ZSTD_decompressDCtx (self->zstd, out, size, stored, n) == size;
}

/* Points `planes[p]` at each plane, decoding those that are coded. */
static gboolean
open_planes (ChunkDecoder *self, guint n_planes, const guint8 *stored, gsize decoded_size, guint8 *whole,
             const guint8 *planes[MAX_PLANES], GError **error)
{
  const guint8 *next = stored + 8 + 4 * n_planes;
  for (guint p = 0; p < n_planes; p++)
    {
      guint32 word = wire_get_u32 (stored + 8 + 4 * p);
      gsize raw = plane_size (n_planes, p, decoded_size);
      guint8 *room = n_planes == 1 ? whole : self->planes + p * PLANE_BYTES;
      if ((word & RAW_FLAG) != 0)
        planes[p] = next;
      else if (decode_plane (self, word, next, room, raw))
        planes[p] = room;
      else
        return fail_corrupt (error, "its compressed bytes cannot be read");
      next += word & PLANE_SIZE_MASK;
    }
  return TRUE;
}

gboolean
chunk_decoder_stripe (ChunkDecoder *self, ChunkEncoding encoding, const guint8 *stored, gsize stored_size,
                      guint8 *out, gsize decoded_size, GError **error)
{
  guint n_planes = encoding_planes[encoding];
  if (stored_size < chunk_stripe_prefix_size (encoding)
      || chunk_stripe_stored_size (encoding, stored, decoded_size) != stored_size)
    return fail_corrupt (error, "its sizes disagree");
  if (n_planes == 0)
    memcpy (out, stored + 8, decoded_size);
  else
    {
      const guint8 *planes[MAX_PLANES];
      if (!open_planes (self, n_planes, stored, decoded_size, out, planes, error))
        return FALSE;
      if (n_planes > 1)
        join_planes (n_planes, planes, decoded_size, out);
      else if (planes[0] != out)
        memcpy (out, planes[0], decoded_size);
    }
  if (stripe_sum (out, decoded_size) != wire_get_u64 (stored))
    return fail_corrupt (error, "its checksum is wrong");
  return TRUE;
}
