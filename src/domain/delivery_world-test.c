/* delivery_step, delivery_claim and delivery_admission in a small world: two Deployments of one namespace ask for one model;
 * everything that may happen happens at random, and the controller dies at random between two of its acts. Never does a Pod
 * start on a volume that is not whole; and when the world has calmed down, everything is as it should be. */
#include "domain/delivery_admission.h"
#include "domain/delivery_step.h"

#define N_WORKLOADS 2
#define N_DIGESTS 3
#define NONE (-1)
#define MAX_SETS 64
#define N_WORLDS 400
#define N_EVENTS 300
#define MAX_ROUNDS 200

static const char *const digests[N_DIGESTS] = { "sha256:0", "sha256:1", "sha256:2" };

typedef struct {
  gboolean exists, is_deleting, is_marked;
  gboolean is_whole; /* in truth */
  ClaimPhase phase;
  guint serial; /* tells claims of one name apart */
  gboolean is_held[N_WORKLOADS];
  MaterializerState job;
  guint job_serial;
  gint64 released_s;
} Claim;

typedef struct {
  gboolean has_gate;
  int state;   /* digest, or NONE */
  guint image; /* each third one is broken: its Pods never start */
} Template;

/* One revision and its Pods. */
typedef struct {
  Template template;
  gboolean is_asking, is_started;
} Set;

typedef struct {
  gboolean exists, is_deleting, is_asking, has_finalizer;
  Template template;
  Set sets[MAX_SETS];
  guint n_sets;
  DeliveryReason reported;
} Workload;

typedef struct {
  GRand *random;
  gboolean has_model, is_ready;
  int digest;
  Claim claims[N_DIGESTS];
  Workload workloads[N_WORKLOADS];
  guint serial;
  gint64 now_s;
  guint n_acts; /* that are left until the controller dies */
} World;

static guint
dice (World *world, guint n)
{
  return (guint) g_rand_int_range (world->random, 0, (gint32) n);
}

/* What is seen */

static gboolean
is_usable (const Claim *claim)
{
  return claim->exists && !claim->is_deleting && claim->phase == CLAIM_BOUND;
}

static gboolean
waits_openly (const World *world, const Workload *workload, int digest)
{
  for (guint i = 0; i < workload->n_sets; i++)
    {
      const Set *set = &workload->sets[i];
      gboolean is_whole = set->template.state != NONE && world->claims[set->template.state].exists
                          && world->claims[set->template.state].is_marked;
      if (!set->is_started && !set->template.has_gate && set->template.state != NONE && !is_whole
          && (digest == NONE || set->template.state == digest))
        return TRUE;
    }
  return FALSE;
}

static ClaimView
claim_view (const World *world, guint who, int digest)
{
  const Claim *claim = &world->claims[digest];
  ClaimView seen = {
    .model = "m",
    .name = "c",
    .phase = claim->exists ? claim->phase : CLAIM_ABSENT,
    .is_deleting = claim->exists && claim->is_deleting,
    .is_ours = claim->exists,
    .is_shared = claim->exists,
    .is_held = claim->exists && claim->is_held[who],
    .is_whole = claim->exists && claim->is_marked,
    .storage_class = "fast",
    .job = claim->job,
    .job_is_older = claim->job_serial != claim->serial,
    .job_ended_ago_s = MATERIALIZER_RETRY_S,
    .has_slot = TRUE,
  };
  for (guint i = 0; i < N_WORKLOADS; i++)
    {
      const Workload *other = &world->workloads[i];
      gboolean names_it = !other->template.has_gate && other->template.state == digest;
      if (i != who && other->exists && (names_it || waits_openly (world, other, digest)))
        seen.has_open_users = TRUE;
    }
  return seen;
}

static gboolean
serves (const World *world, guint who, const Template *template)
{
  if (template->has_gate || template->state == NONE)
    return FALSE;
  ClaimView claim = claim_view (world, who, template->state);
  return claim_serves (&claim);
}

static DeliveryTemplate
template_seen (const World *world, guint who)
{
  const Workload *self = &world->workloads[who];
  if (self->is_asking && serves (world, who, &self->template))
    return DELIVERY_TEMPLATE_SERVING;
  if (self->template.state != NONE)
    return DELIVERY_TEMPLATE_OTHER;
  return self->template.has_gate ? DELIVERY_TEMPLATE_HELD : DELIVERY_TEMPLATE_PLAIN;
}

static gboolean
is_obsolete (const Workload *self, guint set)
{
  return set + 1 < self->n_sets && self->sets[set].template.has_gate && self->sets[set].template.state == NONE;
}

static gboolean
is_same_template (const Template *one, const Template *other)
{
  return one->has_gate == other->has_gate && one->state == other->state && one->image == other->image;
}

static void
decide (const World *world, guint who, DeliveryDecision *out)
{
  const Workload *self = &world->workloads[who];
  DeliveryModelView model = { FALSE,
                              "m",
                              world->has_model,
                              world->has_model && world->is_ready,
                              "Publishing",
                              digests[world->digest],
                              claim_view (world, who, world->digest) };
  DeliveryView seen = {
    .is_deleting = self->is_deleting,
    .has_finalizer = self->has_finalizer,
    .models = &model,
    .n_models = self->is_asking ? 1 : 0,
    .template = template_seen (world, who),
    .is_current = model.is_ready && !self->template.has_gate && self->template.state == world->digest,
    .choice = { STORAGE_CLASS_FINE, "fast" },
    .has_open_pods = waits_openly (world, self, NONE),
    .is_observed = self->n_sets > 0 && is_same_template (&self->sets[self->n_sets - 1].template, &self->template),
    .reported_reason = delivery_reason_name (self->reported),
    .reported_message = delivery_reason_name (self->reported),
  };
  for (guint i = 0; i < N_DIGESTS; i++)
    seen.n_held_claims += world->claims[i].exists && world->claims[i].is_held[who];
  for (guint i = 0; i < self->n_sets; i++)
    seen.has_obsolete |= is_obsolete (self, i);
  delivery_decide (&seen, out);
}

/* What the controller does */

/* FALSE once it is dead. */
static gboolean
act (World *world)
{
  return world->n_acts > 0 && world->n_acts-- > 0;
}

static void
make_claim (World *world, Claim *claim, guint who)
{
  g_assert_false (claim->exists);
  *claim = (Claim){ .exists = TRUE, .phase = CLAIM_PENDING, .serial = ++world->serial };
  claim->is_held[who] = TRUE;
}

static void
take_step (World *world, guint who, ClaimStep step)
{
  Claim *claim = &world->claims[world->digest];
  if (step == CLAIM_STEP_NONE || !act (world))
    return;
  if (step == CLAIM_STEP_CREATE)
    make_claim (world, claim, who);
  else if (step == CLAIM_STEP_HOLD)
    claim->is_held[who] = TRUE;
  else if (step == CLAIM_STEP_START_JOB)
    {
      claim->job = MATERIALIZER_RUNNING;
      claim->job_serial = claim->serial;
    }
  else if (step == CLAIM_STEP_REMOVE_JOB)
    claim->job = MATERIALIZER_ABSENT;
  else if (step == CLAIM_STEP_MARK)
    {
      g_assert_true (claim->is_whole);
      claim->is_marked = TRUE;
    }
}

static void
vanish (World *world, guint who)
{
  world->workloads[who] = (Workload){ 0 };
  for (guint i = 0; i < N_DIGESTS; i++)
    {
      Claim *claim = &world->claims[i];
      gboolean was_held = claim->is_held[who];
      claim->is_held[who] = FALSE;
      claim->is_deleting |= was_held && !claim->is_held[0] && !claim->is_held[1]; /* Kubernetes collects it */
    }
}

static void
patch (World *world, guint who, const DeliveryDecision *decision)
{
  static const gboolean gates[] = { [DELIVERY_HOLD] = TRUE, [DELIVERY_DELIVER] = FALSE, [DELIVERY_CLEAR] = FALSE };
  Workload *self = &world->workloads[who];
  gboolean changes = decision->form != DELIVERY_KEEP || decision->wants_finalizer != self->has_finalizer
                     || decision->changes_report;
  if (!changes || !act (world))
    return;
  self->has_finalizer = decision->wants_finalizer;
  self->reported = decision->changes_report ? decision->reason : self->reported;
  if (decision->form != DELIVERY_KEEP)
    {
      self->template.has_gate = gates[decision->form];
      self->template.state = decision->form == DELIVERY_DELIVER ? world->digest : NONE;
    }
  if (self->is_deleting && !self->has_finalizer)
    vanish (world, who);
}

static void
release (World *world, guint who, DeliveryRelease release)
{
  gboolean is_ready = world->has_model && world->is_ready && world->workloads[who].is_asking;
  for (int i = 0; i < N_DIGESTS; i++)
    {
      Claim *claim = &world->claims[i];
      if (claim->is_held[who]
          && delivery_releases (release, is_ready && i == world->digest, claim->phase != CLAIM_PENDING)
          && act (world))
        claim->is_held[who] = FALSE;
    }
}

static void
remove_sets (World *world, guint who, const DeliveryDecision *decision)
{
  Workload *self = &world->workloads[who];
  guint n_kept = 0;
  for (guint i = 0; i < self->n_sets; i++)
    {
      Workload alone = { .sets = { self->sets[i] }, .n_sets = 1 };
      gboolean goes = (decision->removes_open_pods && waits_openly (world, &alone, NONE))
                      || (decision->removes_obsolete && is_obsolete (self, i));
      if (!(goes && act (world)))
        self->sets[n_kept++] = self->sets[i];
    }
  self->n_sets = n_kept;
}

static void
reconcile (World *world, guint who, guint n_acts)
{
  g_auto (DeliveryDecision) decision = { 0 };
  if (!world->workloads[who].exists)
    return;
  decide (world, who, &decision);
  world->n_acts = n_acts;
  if (decision.claim_steps != NULL)
    take_step (world, who, decision.claim_steps[0]);
  patch (world, who, &decision);
  release (world, who, decision.release);
  remove_sets (world, who, &decision);
}

static gboolean
is_mounted (const World *world, int digest)
{
  for (guint w = 0; w < N_WORKLOADS; w++)
    for (guint i = 0; i < world->workloads[w].n_sets; i++)
      if (world->workloads[w].sets[i].is_started && world->workloads[w].sets[i].template.state == digest)
        return TRUE;
  return FALSE;
}

static void
collect (World *world)
{
  for (int i = 0; i < N_DIGESTS; i++)
    {
      Claim *claim = &world->claims[i];
      ClaimUse use = { claim->phase, claim->is_deleting, claim->is_held[0] + claim->is_held[1], is_mounted (world, i),
                       claim->released_s };
      ClaimFate fate = claim->exists ? claim_fate (&use, world->now_s) : CLAIM_KEEP;
      if (fate == CLAIM_WRITE_RELEASED || fate == CLAIM_CLEAR_RELEASED)
        claim->released_s = fate == CLAIM_WRITE_RELEASED ? world->now_s : 0;
      claim->is_deleting |= fate == CLAIM_DELETE;
    }
}

/* What Kubernetes does */

static void
follow_template (Workload *self)
{
  const Set *newest = self->n_sets > 0 ? &self->sets[self->n_sets - 1] : NULL;
  gboolean is_new = newest == NULL || !is_same_template (&newest->template, &self->template);
  if (!self->exists || self->is_deleting || !is_new)
    return;
  g_assert_cmpuint (self->n_sets, <, MAX_SETS);
  self->sets[self->n_sets++] = (Set){ self->template, self->is_asking, FALSE };
}

static gboolean
is_broken (Template template)
{
  return template.image % 3 == 2;
}

/* The one rule. */
static void
start_pods (World *world, Workload *self)
{
  for (guint i = 0; i < self->n_sets; i++)
    {
      Set *set = &self->sets[i];
      if (set->is_started || set->template.has_gate || is_broken (set->template))
        continue;
      if (set->template.state == NONE)
        g_assert_false (set->is_asking);
      else if (!is_usable (&world->claims[set->template.state]))
        continue;
      else
        g_assert_true (world->claims[set->template.state].is_whole);
      set->is_started = TRUE;
    }
  if (self->n_sets > 1 && self->sets[self->n_sets - 1].is_started) /* the rollout is over */
    {
      self->sets[0] = self->sets[self->n_sets - 1];
      self->n_sets = 1;
    }
}

static void
let_kubernetes_work (World *world)
{
  for (guint w = 0; w < N_WORKLOADS; w++)
    {
      follow_template (&world->workloads[w]);
      start_pods (world, &world->workloads[w]);
    }
  for (int i = 0; i < N_DIGESTS; i++)
    {
      Claim *claim = &world->claims[i];
      if (claim->exists && claim->is_deleting && !is_mounted (world, i) && claim->job != MATERIALIZER_RUNNING)
        {
          MaterializerState job = claim->job;
          guint job_serial = claim->job_serial;
          *claim = (Claim){ .job = job, .job_serial = job_serial };
        }
    }
}

/* What people and machines do */

static void
admit (World *world, guint who, Template submitted, gboolean is_same)
{
  Workload *self = &world->workloads[who];
  ClaimView claim = claim_view (world, who, world->digest);
  gboolean is_held = world->claims[world->digest].is_held[0] || world->claims[world->digest].is_held[1];
  AdmissionView seen = {
    .n_references = self->is_asking ? 1 : 0,
    .can_deliver = world->has_model && world->is_ready && claim.phase == CLAIM_BOUND && claim.is_whole
                   && !claim.is_deleting && is_held,
    .submitted_serves = serves (world, who, &submitted),
    .stored_serves = is_same && serves (world, who, &self->template),
  };
  Admission admission = admission_decide (&seen);
  if (admission == ADMISSION_HOLD)
    submitted = (Template){ TRUE, NONE, submitted.image };
  else if (admission == ADMISSION_DELIVER)
    submitted = (Template){ FALSE, world->digest, submitted.image };
  else if (admission == ADMISSION_KEEP_STORED)
    submitted = (Template){ FALSE, self->template.state, submitted.image };
  self->template = submitted;
}

static void
create_or_delete (World *world, guint who)
{
  Workload *self = &world->workloads[who];
  if (self->exists && dice (world, 3) > 0)
    return;
  if (self->exists)
    {
      self->is_deleting = TRUE;
      self->n_sets = 0;
      if (!self->has_finalizer)
        vanish (world, who);
      return;
    }
  *self = (Workload){ .exists = TRUE, .is_asking = dice (world, 4) > 0 };
  int forged = (int) dice (world, N_DIGESTS + 1) - 1; /* or NONE; without a reference it is the user's own affair */
  admit (world, who, (Template){ FALSE, self->is_asking ? forged : NONE, 0 }, FALSE);
}

static void
edit_workload (World *world, guint who)
{
  Workload *self = &world->workloads[who];
  if (!self->exists || self->is_deleting)
    return;
  guint kind = dice (world, 8), image = self->template.image;
  if (kind == 0) /* the reference comes or goes */
    {
      self->is_asking = !self->is_asking;
      admit (world, who, self->is_asking ? (Template){ FALSE, NONE, image } : self->template, FALSE);
    }
  else if (kind == 1 && self->n_sets > 0) /* rolled back */
    admit (world, who, self->sets[0].template, TRUE);
  else if (
    self->is_asking) /* the manifest is applied again, which knows nothing of the delivery, or with another image */
    admit (world, who, (Template){ FALSE, NONE, image + (kind > 4) }, TRUE);
}

static void
end_job (World *world, Claim *claim)
{
  if (claim->job != MATERIALIZER_RUNNING)
    return;
  claim->job = dice (world, 3) > 0 ? MATERIALIZER_SUCCEEDED : MATERIALIZER_FAILED;
  claim->is_whole |= claim->job == MATERIALIZER_SUCCEEDED && claim->job_serial == claim->serial;
}

/* Its provisioner and its Job come further. */
static void
advance_claim (World *world, Claim *claim)
{
  if (claim->exists && claim->phase == CLAIM_PENDING && !claim->is_deleting)
    claim->phase = CLAIM_BOUND;
  else
    end_job (world, claim);
}

static void
disturb_claim (World *world, Claim *claim)
{
  if (claim->exists && claim->phase == CLAIM_BOUND && dice (world, 4) == 0)
    claim->phase = CLAIM_LOST;
  else
    claim->is_deleting = claim->exists;
}

static void
disturb_model (World *world)
{
  guint kind = dice (world, 6);
  if (kind == 0)
    world->has_model = !world->has_model;
  else if (kind < 3)
    world->digest = (int) dice (world, N_DIGESTS);
  else
    world->is_ready = dice (world, 4) > 0;
}

static void
restart_pods (World *world, guint who)
{
  for (guint i = 0; i < world->workloads[who].n_sets; i++)
    world->workloads[who].sets[i].is_started = FALSE;
}

/* Nobody uses the claims any more, and somebody deletes them. */
static void
lose_all (World *world)
{
  for (guint w = 0; w < N_WORKLOADS; w++)
    restart_pods (world, w);
  for (int i = 0; i < N_DIGESTS; i++)
    world->claims[i].is_deleting = world->claims[i].exists;
}

static void
happen (World *world)
{
  guint who = dice (world, N_WORKLOADS), kind = dice (world, 100);
  Claim *claim = &world->claims[dice (world, 2) > 0 ? (guint) world->digest : dice (world, N_DIGESTS)];
  world->now_s += dice (world, 100);
  if (kind < 2)
    create_or_delete (world, who);
  else if (kind < 4)
    edit_workload (world, who);
  else if (kind < 6)
    disturb_model (world);
  else if (kind < 7)
    disturb_claim (world, claim);
  else if (kind < 8)
    lose_all (world);
  else if (kind < 10)
    restart_pods (world, who);
  else if (kind < 15)
    collect (world);
  else if (kind < 30)
    advance_claim (world, claim);
  else if (kind < 75)
    reconcile (world, who, dice (world, 4) > 0 ? G_MAXUINT : dice (world, 4));
  else
    let_kubernetes_work (world);
}

/* Nothing happens to it any more but what should; somebody deletes the lost claims and restarts what uses those. */
static void
calm_down (World *world)
{
  world->has_model = world->is_ready = TRUE;
  for (guint w = 0; w < N_WORKLOADS; w++)
    world->workloads[w].template.image += is_broken (world->workloads[w].template);
  for (guint round = 0; round < MAX_ROUNDS; round++)
    {
      for (int i = 0; i < N_DIGESTS; i++)
        {
          Claim *claim = &world->claims[i];
          claim->is_deleting |= claim->exists && claim->phase == CLAIM_LOST;
          advance_claim (world, claim);
        }
      for (guint w = 0; w < N_WORKLOADS; w++)
        {
          if (world->claims[0].is_deleting || world->claims[1].is_deleting || world->claims[2].is_deleting)
            restart_pods (world, w);
          reconcile (world, w, G_MAXUINT);
        }
      world->now_s += 100;
      collect (world);
      let_kubernetes_work (world);
    }
}

static void
check_workload (const World *world, guint who)
{
  const Workload *self = &world->workloads[who];
  if (!self->exists)
    return;
  g_assert_false (self->is_deleting);
  g_assert_cmpuint (self->n_sets, ==, 1);
  g_assert_true (self->sets[0].is_started);
  g_assert_false (self->template.has_gate);
  g_assert_cmpint (self->template.state, ==, self->is_asking ? world->digest : NONE);
  g_assert_cmpint (self->has_finalizer, ==, self->is_asking);
  g_assert_cmpint (self->reported, ==, DELIVERY_UNHINDERED);
  g_auto (DeliveryDecision) decision = { 0 };
  decide (world, who, &decision);
  g_assert_true (decision.form == DELIVERY_KEEP && !decision.changes_report && decision.event == DELIVERY_NO_EVENT);
}

/* Just what is asked for is there, held by those who ask. */
static void
check_claims (const World *world)
{
  for (int i = 0; i < N_DIGESTS; i++)
    {
      gboolean is_wanted = FALSE;
      for (guint w = 0; w < N_WORKLOADS; w++)
        {
          gboolean asks = world->workloads[w].exists && world->workloads[w].is_asking && i == world->digest;
          g_assert_cmpint (world->claims[i].is_held[w], ==, asks);
          is_wanted |= asks;
        }
      g_assert_cmpint (world->claims[i].exists, ==, is_wanted);
      g_assert_cmpint (world->claims[i].is_marked, ==, is_wanted);
    }
}

static void
test_worlds (void)
{
  for (guint n = 0; n < N_WORLDS; n++)
    {
      World world = { .random = g_rand_new_with_seed (n), .has_model = TRUE, .is_ready = TRUE, .now_s = 1800000000 };
      g_test_message ("world %u", n);
      for (guint i = 0; i < N_EVENTS; i++)
        happen (&world);
      calm_down (&world);
      for (guint w = 0; w < N_WORKLOADS; w++)
        check_workload (&world, w);
      check_claims (&world);
      g_rand_free (world.random);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/delivery-world/worlds", test_worlds);
  return g_test_run ();
}
