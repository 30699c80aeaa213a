#include "domain/materialize_queue.h"

#include <string.h>

#define MAX_REQUESTS 16

/* "a1 a2* b3": namespace, age of the claim (small is old); '*' and when its Job started: it runs; '?' the same: it is stalled;
 * '!' the same: done. */
static MaterializeState
state_of (const char *mark)
{
  if (mark == NULL)
    return MATERIALIZE_WAITS;
  return *mark == '*' ? MATERIALIZE_RUNS : *mark == '?' ? MATERIALIZE_STALLED : MATERIALIZE_ENDED;
}

static gsize
requests_of (const char *text, MaterializeRequest *out_requests, char **words)
{
  gsize n = 0;
  for (; words[n] != NULL; n++)
    {
      char *mark = strpbrk (words[n], "*?!");
      static const char *const namespaces[] = { "a", "b", "c" };
      out_requests[n] = (MaterializeRequest){
        .namespace = namespaces[words[n][0] - 'a'],
        .claim = words[n],
        .state = state_of (mark),
        .claim_created_s = g_ascii_strtoll (words[n] + 1, NULL, 10),
        .job_started_s = mark != NULL ? g_ascii_strtoll (mark + 1, NULL, 10) : 0,
      };
    }
  return n;
}

static const struct {
  const char *requests;
  guint max_running;
  const char *next;
} rows[] = {
  { "", 2, "" },
  { "a1", 2, "a1" },
  { "a1 a2 a3", 2, "a1 a2" },
  { "a3 a1 a2", 2, "a1 a2" },
  { "a1*0 a2*0 b3", 2, "" },
  { "a1*0 a2*0 a3*0 b3", 2, "" }, /* the limit was lowered */
  { "a1*0 a2 b3", 2, "b3" },
  { "a1?0 a2?0 b3", 2, "b3" },
  { "a1?0 a2 b3", 1, "b3" }, /* it has one already */
  { "a1?0 a2 b3", 2, "b3 a2" },
  { "a1?0 b2*0 b3", 1, "" },
  { "a1*0 a2 a3 b9", 3, "b9 a2" },
  { "a1 a2 a3 b9", 2, "a1 b9" },
  { "a1 a2 a3 b9", 4, "a1 b9 a2 a3" },
  { "a1 a2 b3 b4 c5 c6", 5, "a1 b3 c5 a2 b4" },
  { "a1 a2 a3", 0, "" },
  { "a0!5 a1 b9", 1, "b9" },           /* one at a time: a was served before */
  { "a0!5 b0!6 a1 b2", 1, "a1" },      /* b was served later */
  { "a0!5 a9!7 b0!6 a1 b2", 1, "b2" }, /* the last Job of each counts */
  { "a5 b5", 1, "a5" },                /* some order, always the same */
  { "b5 a5", 1, "a5" },
  { "a5 a5x", 1, "a5" },
  { "a5x a5", 1, "a5" },
};

static char *
shown (const MaterializeRequest *requests, const GArray *order)
{
  GString *line = g_string_new (NULL);
  for (guint i = 0; i < order->len; i++)
    g_string_append_printf (line, "%s%s", i > 0 ? " " : "", requests[g_array_index (order, guint, i)].claim);
  return g_string_free (line, FALSE);
}

static void
test_rows (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      MaterializeRequest requests[MAX_REQUESTS];
      g_auto (GStrv) words = rows[i].requests[0] != '\0' ? g_strsplit (rows[i].requests, " ", -1)
                                                         : g_new0 (char *, 1);
      gsize n = requests_of (rows[i].requests, requests, words);
      g_autoptr (GArray) order = materialize_queue_next (requests, n, rows[i].max_running);
      g_autofree char *next = shown (requests, order);
      g_test_message ("%s", rows[i].requests);
      g_assert_cmpstr (next, ==, rows[i].next);
    }
}

#define N_MANY 60

/* One namespace asks for many, another later for one: whatever the limit, at most one more Job of the first begins before
 * that of the second. */
static void
test_fairness (void)
{
  for (guint max_running = 1; max_running <= 3; max_running++)
    {
      MaterializeRequest requests[N_MANY + 1];
      for (gsize i = 0; i < N_MANY; i++)
        requests[i] = (MaterializeRequest){ "greedy", "c", MATERIALIZE_WAITS, (gint64) i, 0 };
      gsize n = N_MANY;
      guint n_begun = 0;
      for (gint64 now = 100; requests[N_MANY].state != MATERIALIZE_RUNS || n == N_MANY; now++)
        {
          if (now == 110)
            {
              requests[n++] = (MaterializeRequest){ "modest", "c", MATERIALIZE_WAITS, 9999, 0 };
              requests[N_MANY].state = MATERIALIZE_WAITS;
            }
          g_autoptr (GArray) order = materialize_queue_next (requests, n, max_running);
          for (guint i = 0; i < order->len; i++)
            {
              requests[g_array_index (order, guint, i)].state = MATERIALIZE_RUNS;
              requests[g_array_index (order, guint, i)].job_started_s = now;
            }
          n_begun += n > N_MANY ? order->len : 0;
          for (gsize i = 0; i < n; i++) /* the oldest of those that run ends */
            if (requests[i].state == MATERIALIZE_RUNS && i < N_MANY)
              {
                requests[i].state = MATERIALIZE_ENDED;
                break;
              }
        }
      g_assert_cmpuint (n_begun, <=, 1);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/materialize-queue/rows", test_rows);
  g_test_add_func ("/materialize-queue/fairness", test_fairness);
  return g_test_run ();
}
