package main

import (
	"encoding/json"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
)

// A webhook that knows nothing and only holds every workload: the least that one in Go takes.

func holdAll(answer http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(answer, "no review", http.StatusBadRequest)
		return
	}
	path, kind := "/spec/template/spec/schedulingGates", admissionv1.PatchTypeJSONPatch
	if review.Request.Kind.Kind == "CronJob" {
		path = "/spec/jobTemplate" + path
	}
	patch, _ := json.Marshal([]map[string]any{{"op": "add", "path": path, "value": []map[string]string{{"name": prefix + "model-delivery"}}}})
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, Patch: patch, PatchType: &kind}
	review.Request = nil
	answer.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(answer).Encode(&review)
}

func serveWebhook(address, certificate, key string) {
	must(http.ListenAndServeTLS(address, certificate, key, http.HandlerFunc(holdAll)))
}
