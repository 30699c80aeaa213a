#include "domain/materialize_queue.h"

#include <string.h>

/* One namespace of those that wait. */
typedef struct {
  const char *name;
  GArray *waiting; /* of guint, the oldest claim first */
  guint n_taken;   /* of these */
  guint n_unfinished;
  gint64 served_s; /* when its last Job started */
} Tenant;

static void
tenant_free (gpointer data)
{
  Tenant *self = data;
  g_array_unref (self->waiting);
  g_free (self);
}

static Tenant *
tenant_of (GHashTable *tenants, const char *name)
{
  Tenant *tenant = g_hash_table_lookup (tenants, name);
  if (tenant != NULL)
    return tenant;
  tenant = g_new0 (Tenant, 1);
  tenant->name = name;
  tenant->waiting = g_array_new (FALSE, FALSE, sizeof (guint));
  g_hash_table_insert (tenants, (char *) name, tenant);
  return tenant;
}

static int
by_age (gconstpointer a, gconstpointer b, gpointer data)
{
  const MaterializeRequest *requests = data;
  const MaterializeRequest *one = &requests[*(const guint *) a], *other = &requests[*(const guint *) b];
  if (one->claim_created_s != other->claim_created_s)
    return one->claim_created_s < other->claim_created_s ? -1 : 1;
  return strcmp (one->claim, other->claim);
}

static GHashTable *
tenants_of (const MaterializeRequest *requests, gsize n)
{
  GHashTableIter iter;
  gpointer tenant;
  GHashTable *tenants = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, tenant_free);
  for (guint i = 0; i < n; i++)
    {
      Tenant *of = tenant_of (tenants, requests[i].namespace);
      if (requests[i].state == MATERIALIZE_WAITS)
        g_array_append_val (of->waiting, i);
      else
        of->served_s = MAX (of->served_s, requests[i].job_started_s);
      of->n_unfinished += requests[i].state == MATERIALIZE_RUNS || requests[i].state == MATERIALIZE_STALLED;
    }
  g_hash_table_iter_init (&iter, tenants);
  while (g_hash_table_iter_next (&iter, NULL, &tenant))
    g_array_sort_with_data (((Tenant *) tenant)->waiting, by_age, (gpointer) requests);
  return tenants;
}

static guint
next_of (const Tenant *tenant)
{
  return g_array_index (tenant->waiting, guint, tenant->n_taken);
}

static gboolean
comes_before (const Tenant *one, const Tenant *other, const MaterializeRequest *requests)
{
  if (one->n_unfinished != other->n_unfinished)
    return one->n_unfinished < other->n_unfinished;
  if (one->served_s != other->served_s)
    return one->served_s < other->served_s;
  gint64 since = requests[next_of (one)].claim_created_s, since_other = requests[next_of (other)].claim_created_s;
  return since != since_other ? since < since_other : strcmp (one->name, other->name) < 0;
}

/* NULL when nobody waits. */
static Tenant *
whose_turn (GHashTable *tenants, const MaterializeRequest *requests)
{
  GHashTableIter iter;
  gpointer value;
  Tenant *first = NULL;
  g_hash_table_iter_init (&iter, tenants);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      Tenant *tenant = value;
      if (tenant->n_taken < tenant->waiting->len && (first == NULL || comes_before (tenant, first, requests)))
        first = tenant;
    }
  return first;
}

static guint
count_running (const MaterializeRequest *requests, gsize n)
{
  guint n_running = 0;
  for (gsize i = 0; i < n; i++)
    n_running += requests[i].state == MATERIALIZE_RUNS;
  return n_running;
}

GArray *
materialize_queue_next (const MaterializeRequest *requests, gsize n, guint max_running)
{
  GArray *order = g_array_new (FALSE, FALSE, sizeof (guint));
  g_autoptr (GHashTable) tenants = tenants_of (requests, n);
  for (guint n_running = count_running (requests, n); n_running < max_running; n_running++)
    {
      Tenant *tenant = whose_turn (tenants, requests);
      if (tenant == NULL)
        break;
      guint index = next_of (tenant);
      g_array_append_val (order, index);
      tenant->n_taken++;
      tenant->n_unfinished++;
      tenant->served_s = G_MAXINT64;
    }
  return order;
}
