#include "controllers/event_sight.h"

#include "controllers/controllers_fixture.h"

#define ABOUT(uid) "'involvedObject':{'kind':'PersistentVolumeClaim','uid':'" uid "','name':'c'}"
#define WARNING "'type':'Warning',"
#define FAILED "'reason':'ProvisioningFailed',"
#define AT(time) "'lastTimestamp':'2026-01-01T00:00:0" #time "Z',"
#define BY(component) "'source':{'component':'" component "'},"

static const char *const reasons[] = { "ProvisioningFailed", NULL }, *const reporters[] = {
  "persistentvolume-controller", "csi.example.com", NULL
};
static const EventWanted wanted = { "PersistentVolumeClaim", "u-1", reasons, reporters };

static const struct {
  const char *what, *event;
  gboolean counts;
} rows[] = {
  { "a provisioner's", WARNING FAILED BY ("csi.example.com_pod-0_5a") ABOUT ("u-1"), TRUE },
  { "by its bare name", WARNING FAILED BY ("csi.example.com") ABOUT ("u-1"), TRUE },
  { "of the control plane", WARNING FAILED BY ("persistentvolume-controller") ABOUT ("u-1"), TRUE },
  { "the other way to say who", WARNING FAILED "'reportingComponent':'csi.example.com'," ABOUT ("u-1"), TRUE },
  { "of another claim of that name", WARNING FAILED BY ("csi.example.com") ABOUT ("u-2"), FALSE },
  { "of no claim", WARNING FAILED BY ("csi.example.com") "'involvedObject':{'kind':'Pod','uid':'u-1'}", FALSE },
  { "no warning", "'type':'Normal'," FAILED BY ("csi.example.com") ABOUT ("u-1"), FALSE },
  { "of something else", WARNING "'reason':'Resizing'," BY ("csi.example.com") ABOUT ("u-1"), FALSE },
  { "by nobody", WARNING FAILED ABOUT ("u-1"), FALSE },
  { "by somebody", WARNING FAILED BY ("kubectl") ABOUT ("u-1"), FALSE },
  { "by one of a longer name", WARNING FAILED BY ("csi.example.community") ABOUT ("u-1"), FALSE },
  { "by another provisioner", WARNING FAILED BY ("other.example.com_pod-0_5a") ABOUT ("u-1"), FALSE },
  { "odd", "'type':1,'reason':{},'source':[],'involvedObject':'x'", FALSE },
};

static KubeObject *
event_of (const char *members, const char *message)
{
  g_autofree char *text = g_strdup_printf ("{'metadata':{'name':'e'},%s,'message':'%s'}", members, message);
  return object_of (text);
}

static void
test_rows (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      EventSaid said = { 0 };
      g_autoptr (KubeObject) event = event_of (rows[i].event, "no space");
      g_test_message ("%s", rows[i].what);
      event_sight_take (event, &wanted, &said);
      g_assert_cmpstr (said.message, ==, rows[i].counts ? "no space" : NULL);
      g_free (said.message);
    }
}

/* In whatever order they come. */
static void
test_newest (void)
{
  static const char *const events[] = {
    WARNING FAILED AT (1) BY ("csi.example.com") ABOUT ("u-1"),
    WARNING FAILED "'eventTime':'2026-01-01T00:00:03.5Z'," BY ("csi.example.com") ABOUT ("u-1"),
    WARNING FAILED AT (2) BY ("csi.example.com") ABOUT ("u-1"),
    WARNING FAILED AT (9) BY ("csi.example.com") ABOUT ("u-2"),
    WARNING FAILED AT (9) BY ("persistentvolume-controller") ABOUT ("u-1"),
  };
  static const char *const messages[] = {
    "first", "third", "second", "of another",
    "Error saving claim: Operation cannot be fulfilled: the object has been modified; please apply your changes to "
    "the latest version and try again"
  };
  for (guint order = 0; order < 2; order++)
    {
      EventSaid said = { 0 };
      for (guint i = 0; i < G_N_ELEMENTS (events); i++)
        {
          guint k = order == 0 ? i : (guint) G_N_ELEMENTS (events) - 1 - i;
          g_autoptr (KubeObject) event = event_of (events[k], messages[k]);
          event_sight_take (event, &wanted, &said);
        }
      g_assert_cmpstr (said.message, ==, "third");
      g_free (said.message);
    }
}

static void
test_any_reason (void)
{
  static const char *const kubelet[] = { "kubelet", NULL };
  EventWanted of_pod = { "Pod", "p-1", NULL, kubelet };
  EventSaid said = { 0 };
  g_autoptr (KubeObject) event = event_of (WARNING "'reason':'FailedMount','source':{'component':'kubelet'},"
                                                   "'involvedObject':{'kind':'Pod','uid':'p-1'}",
                                           "cannot mount");
  g_autoptr (KubeObject) mute = event_of (WARNING "'source':{'component':'kubelet'},"
                                                  "'involvedObject':{'kind':'Pod','uid':'p-1'}",
                                          "");
  event_sight_take (event, &of_pod, &said);
  event_sight_take (mute, &of_pod, &said);
  g_assert_cmpstr (said.message, ==, "cannot mount");
  g_free (said.message);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/event-sight/rows", test_rows);
  g_test_add_func ("/event-sight/newest", test_newest);
  g_test_add_func ("/event-sight/any-reason", test_any_reason);
  return g_test_run ();
}
