{{- define "causeway.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 52 bytes, because the names of a StatefulSet's pods and of the Job begin with this name. */}}
{{- define "causeway.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "causeway.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The labels of selectors. An upgrade cannot change them, because Kubernetes rejects another selector. */}}
{{- define "causeway.selectorLabels" -}}
app.kubernetes.io/name: {{ include "causeway.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: worker
{{- end -}}

{{/* All labels of an object, from a dict: `root`, `component`, and optionally more `labels`. The selector's labels override all others. */}}
{{- define "causeway.labels" -}}
{{- $labels := merge (include "causeway.selectorLabels" .root | fromYaml) (.labels | default dict) .root.Values.commonLabels -}}
{{- $_ := set $labels "app.kubernetes.io/component" .component -}}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
{{- $_ := set $labels "app.kubernetes.io/version" .root.Chart.AppVersion -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- toYaml $labels -}}
{{- end -}}

{{/* The metadata of an object, from a dict: `root`, and optionally `suffix` of the name, `component`, `labels`, `annotations`. */}}
{{- define "causeway.metadata" -}}
{{- $component := .component | default "worker" -}}
name: {{ include "causeway.fullname" .root }}{{ .suffix }}
labels: {{- include "causeway.labels" (dict "root" .root "component" $component "labels" .labels) | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "causeway.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "causeway.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (ternary (include "causeway.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{/* The port of config.http. An empty section means its defaults, as in the program. `dig` would fail on a section that is null. */}}
{{- define "causeway.httpPort" -}}
{{- $http := get .Values.config "http" | default dict -}}
{{- $port := index $http "port" -}}
{{- if kindIs "invalid" $port -}}{{- $port = 9464 -}}{{- end -}}
{{- if eq (int $port) 0 -}}
{{- fail "config.http.port: 0 leaves the probes without a port" -}}
{{- end -}}
{{- $host := get $http "host" | default "" | toString -}}
{{- if regexMatch "^(127\\.|::1$|::ffff:127\\.|(0*:){7}0*1$)" (lower $host) -}}
{{- fail (printf "config.http.host: %s is the pod's own loopback, which neither probes nor Prometheus can reach" $host) -}}
{{- end -}}
{{- int $port -}}
{{- end -}}

{{/* The grace period in seconds: the drain time plus the sleep of a preStop hook plus 10 s, or the given value if it is at least 5 s above
the drain time and the sleep together. Kubernetes counts the sleep as part of the grace period. */}}
{{- define "causeway.gracePeriodSeconds" -}}
{{- $drain := index (get .Values.config "worker" | default dict) "drainMilliseconds" -}}
{{- if kindIs "invalid" $drain -}}{{- $drain = 20000 -}}{{- end -}}
{{- $sleep := get (get (get .Values.lifecycle "preStop" | default dict) "sleep" | default dict) "seconds" | default 0 | int -}}
{{- $drainSeconds := add (div (add (int $drain) 999) 1000) $sleep | int -}}
{{- $given := .Values.terminationGracePeriodSeconds -}}
{{- if kindIs "invalid" $given -}}
{{- add $drainSeconds 10 -}}
{{- else if lt (int $given) (int (add $drainSeconds 5)) -}}
{{- fail (printf "terminationGracePeriodSeconds: %d is less than 5 s above the drain time, config.worker.drainMilliseconds: %d%s" (int $given) (int $drain) (ternary (printf ", and lifecycle.preStop.sleep.seconds: %d" $sleep) "" (gt $sleep 0))) -}}
{{- else -}}
{{- int $given -}}
{{- end -}}
{{- end -}}

{{/* The number of lanes: the requested cores, rounded up. "1500m" and 1.5 give 2. */}}
{{- define "causeway.laneCount" -}}
{{- $cpu := get (get .Values.resources "requests" | default dict) "cpu" | default "1" | toString -}}
{{- $milliCPU := ternary (trimSuffix "m" $cpu | float64) (mulf (float64 $cpu) 1000) (hasSuffix "m" $cpu) -}}
{{- max 1 (int (ceil (divf $milliCPU 1000))) -}}
{{- end -}}
