{{/* Rejects values that were renamed or removed in chart 0.7.0. The schema accepts the old names so that this error can name the new ones. */}}
{{- define "causeway.rejectRenamedValues" -}}
{{- $renamed := dict
  "replicas" "is now called replicaCount"
  "labels" "is now called commonLabels"
  "image.pullSecrets" "is now called imagePullSecrets"
  "topologySpread" "is now called topologySpreadConstraints, a list of Kubernetes' own constraints; an empty list for none"
  "topics.job.image" "remove it: the Job runs the workers' image"
  "topics.job.command" "remove it: the Job runs the program `causeway topics --create`"
  "topics.job.clientPropertiesSecret" "is now called topics.job.secretName; topics.job.properties has the settings that are not secret"
-}}
{{- range $path, $advice := $renamed -}}
{{-   $parts := splitList "." $path -}}
{{-   $section := $.Values -}}
{{-   range initial $parts -}}{{- $section = get $section . | default dict -}}{{- end -}}
{{-   if hasKey $section (last $parts) -}}
{{-     fail (printf "%s: %s" $path $advice) -}}
{{-   end -}}
{{- end -}}
{{- end -}}

{{/* Rejects extra values with names and paths that the chart uses itself: Kubernetes would reject the pod, or hide the chart's files. */}}
{{- define "causeway.rejectReservedNames" -}}
{{- range .Values.extraVolumes -}}
{{-   if has .name (list "config" "secrets") -}}
{{-     fail (printf "extraVolumes: the name %s is reserved for the chart; use another name" .name) -}}
{{-   end -}}
{{- end -}}
{{- range .Values.extraVolumeMounts -}}
{{-   if regexMatch "^/etc/causeway/(config|secrets)(/|$)" .mountPath -}}
{{-     fail (printf "extraVolumeMounts: %s is reserved for the chart; use secrets.files or another path" .mountPath) -}}
{{-   end -}}
{{- end -}}
{{- /* The pod of `helm test` has the init containers too, beside two containers of the chart. */ -}}
{{- range $key, $reserved := dict "initContainers" (list "worker" "configuration" "readiness") "sidecars" (list "worker") -}}
{{-   range get $.Values $key -}}
{{-     if has .name $reserved -}}
{{-       fail (printf "%s: the name %s is reserved for the chart; use another name" $key .name) -}}
{{-     end -}}
{{-   end -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{-   if and (eq .name "CAUSEWAY_KAFKA_CONSUMER_GROUP_INSTANCE_ID") (eq $.Values.kind "StatefulSet") -}}
{{-     fail (printf "extraEnv: remove %s; with kind StatefulSet the chart sets each pod's name" .name) -}}
{{-   end -}}
{{- end -}}
{{- end -}}
