{{/* The worker's configuration: `config`, with the paths of the mounted secrets and the number of lanes. A StatefulSet gets its longer session
timeout here. */}}
{{- define "causeway.config" -}}
{{- include "causeway.rejectSecretsInConfig" . -}}
{{- $directory := "/etc/causeway/secrets" -}}
{{- $config := deepCopy .Values.config -}}
{{- range $name, $app := $config.apps -}}
{{-   if not (hasKey (get $config "policies" | default dict) ($app.policy | default "default") | or (eq "default" ($app.policy | default "default"))) -}}
{{-     fail (printf "config.apps.%s.policy: config.policies has no %s" $name $app.policy) -}}
{{-   end -}}
{{-   $secret := get $.Values.secrets.apns $name -}}
{{-   if $secret -}}
{{-     $_ := set $app "keyFile" (printf "%s/apns/%s/AuthKey_%s.p8" $directory $name $app.keyId) -}}
{{-     if $app.sandboxKeyId -}}
{{-       $_ := set $app "sandboxKeyFile" (printf "%s/apns/%s/AuthKey_%s.p8" $directory $name $app.sandboxKeyId) -}}
{{-     end -}}
{{-   else if not $app.keyFile -}}
{{-     fail (printf "secrets.apns.%s: is required: the Secret with the key of config.apps.%s" $name $name) -}}
{{-   end -}}
{{- end -}}
{{- range $name, $_ := .Values.secrets.apns -}}
{{-   if not (hasKey $config.apps $name) -}}
{{-     fail (printf "secrets.apns.%s: config.apps has no app of this name" $name) -}}
{{-   end -}}
{{- end -}}
{{- with .Values.secrets.redis -}}
{{-   if .secretName -}}
{{-     range $from, $to := dict "passwordKey" "passwordFile" "sentinelPasswordKey" "sentinelPasswordFile" "caKey" "caFile" "certificateKey" "certificateFile" "privateKeyKey" "keyFile" -}}
{{-       if index $.Values.secrets.redis $from -}}
{{-         $_ := set $config.redis $to (printf "%s/redis/%s" $directory $to) -}}
{{-       end -}}
{{-     end -}}
{{-   end -}}
{{- end -}}
{{- with .Values.secrets.kafka -}}
{{-   if .secretName -}}
{{-     if .passwordKey -}}
{{-       $_ := set $config.kafka "propertyFiles" (merge (dict "sasl.password" (printf "%s/kafka/sasl.password" $directory)) (get $config.kafka "propertyFiles" | default dict)) -}}
{{-     end -}}
{{-     $properties := get $config.kafka "properties" | default dict -}}
{{-     range $from, $to := omit (include "causeway.kafkaSecretFiles" . | fromYaml) "passwordKey" -}}
{{-       if index $.Values.secrets.kafka $from -}}
{{-         $_ := set $properties $to (printf "%s/kafka/%s" $directory $to) -}}
{{-       end -}}
{{-     end -}}
{{-     if $properties -}}{{- $_ := set $config.kafka "properties" $properties -}}{{- end -}}
{{-   end -}}
{{- end -}}
{{- if kindIs "invalid" (index (get $config "worker" | default dict) "lanes") -}}
{{-   $worker := get $config "worker" | default dict -}}
{{-   $_ := set $config "worker" (set $worker "lanes" (include "causeway.laneCount" . | int)) -}}
{{- end -}}
{{- if eq .Values.kind "StatefulSet" -}}
{{-   if hasKey (get $config.kafka "consumer" | default dict) "group.instance.id" -}}
{{-     fail "config.kafka.consumer.group.instance.id: remove it; with kind StatefulSet the chart sets each pod's name" -}}
{{-   end -}}
{{-   $consumer := get $config.kafka "consumer" | default dict -}}
{{-   if not (or (hasKey $consumer "session.timeout.ms") (hasKey (get $config.kafka "properties" | default dict) "session.timeout.ms")) -}}
{{-     $_ := set $config.kafka "consumer" (merge (dict "session.timeout.ms" "45000") $consumer) -}}
{{-   end -}}
{{- end -}}
{{- $text := toYaml $config -}}
{{- include "causeway.rejectUnmountedFiles" (dict "directory" $directory "text" $text "sources" (include "causeway.secretSources" . | fromYamlArray)) -}}
{{- $text -}}
{{- end -}}

{{/* Rejects a path below the secrets' directory that no Secret provides, because no worker could start without the file. */}}
{{- define "causeway.rejectUnmountedFiles" -}}
{{- $mounted := list -}}
{{- range .sources -}}
{{-   range .secret.items -}}{{- $mounted = append $mounted .path -}}{{- end -}}
{{- end -}}
{{- range regexFindAll (printf "%s/[^\\s\"',}]+" .directory) .text -1 -}}
{{-   if not (has (trimPrefix (printf "%s/" $.directory) .) $mounted) -}}
{{-     fail (printf "config: names %s, but secrets.files does not mount this file" .) -}}
{{-   end -}}
{{- end -}}
{{- end -}}

{{/* The part of the configuration that applies only from a worker's next start. A running worker applies the other keys from the changed
file, which Kubernetes writes within a minute or two. A section with only such other keys is left out. `make configuration-files` writes the two
lists of keys. */}}
{{- define "causeway.configAppliedAtStart" -}}
{{- $config := fromYaml . -}}
{{- $_ := unset $config "policies" -}}
{{- range $app := $config.apps -}}
{{-   range list "policy" "shapes" -}}{{- $_ := unset $app . -}}{{- end -}}
{{- end -}}
{{- range $section, $keys := dict "log" (list "level") "worker" (list "retryMillisecondsMax" "deferAfterMilliseconds" "deferredDelayMilliseconds" "readAheadLagRecords" "readAheadMillisecondsMax") -}}
{{-   $members := get $config $section | default dict -}}
{{-   range $keys -}}{{- $_ := unset $members . -}}{{- end -}}
{{-   if not $members -}}{{- $_ := unset $config $section -}}{{- end -}}
{{- end -}}
{{- toJson $config -}}
{{- end -}}

{{/* Rejects passwords in `config`, because `config` becomes a ConfigMap. */}}
{{- define "causeway.rejectSecretsInConfig" -}}
{{- range $section := list "properties" "consumer" "producer" -}}
{{-   range $property, $_ := get $.Values.config.kafka $section | default dict -}}
{{-     include "causeway.rejectSecretProperty" (list (printf "config.kafka.%s" $section) $property "secrets.kafka.passwordKey") -}}
{{-   end -}}
{{- end -}}
{{- range $key, $secretKey := dict "url" "passwordKey" "sentinelURL" "sentinelPasswordKey" -}}
{{-   if regexMatch "://[^/@]*:[^/@]+@" (get $.Values.config.redis $key | toString) -}}
{{-     fail (printf "config.redis.%s: the password would be stored in a ConfigMap; use secrets.redis.%s" $key $secretKey) -}}
{{-   end -}}
{{- end -}}
{{- end -}}

{{/* Rejects a property of librdkafka that contains a secret. The list has the section, the property and the chart value to use instead. */}}
{{- define "causeway.rejectSecretProperty" -}}
{{- $property := index . 1 -}}
{{- if or (hasSuffix "password" $property) (hasSuffix "secret" $property) (eq "ssl.key.pem" $property) (eq "sasl.jaas.config" $property) -}}
{{-   fail (printf "%s.%s: would be stored in a ConfigMap; use %s, or secrets.files and config.kafka.propertyFiles" (index . 0) $property (index . 2)) -}}
{{- end -}}
{{- end -}}

{{/* The sources of the projected volume with all secrets. Without secrets there are no sources. */}}
{{- define "causeway.secretSources" -}}
{{- range $name, $secret := .Values.secrets.apns }}
{{- $app := get $.Values.config.apps $name }}
{{- $keyName := printf "AuthKey_%s.p8" $app.keyId }}
- secret:
    name: {{ $secret.secretName }}
    items:
      - key: {{ $secret.key | default $keyName }}
        path: {{ printf "apns/%s/%s" $name $keyName }}
      {{- if and $app.sandboxKeyId (ne (toString $app.sandboxKeyId) (toString $app.keyId)) }}
      {{- $sandboxKeyName := printf "AuthKey_%s.p8" $app.sandboxKeyId }}
      - key: {{ $secret.sandboxKey | default $sandboxKeyName }}
        path: {{ printf "apns/%s/%s" $name $sandboxKeyName }}
      {{- end }}
{{- end }}
{{- include "causeway.keyedSecretSource" (dict "values" .Values.secrets.redis "name" "secrets.redis" "path" "redis" "keys" (dict "passwordKey" "passwordFile" "sentinelPasswordKey" "sentinelPasswordFile" "caKey" "caFile" "certificateKey" "certificateFile" "privateKeyKey" "keyFile")) }}
{{- include "causeway.keyedSecretSource" (dict "values" .Values.secrets.kafka "name" "secrets.kafka" "path" "kafka" "keys" (include "causeway.kafkaSecretFiles" . | fromYaml)) }}
{{- include "causeway.secretFileSources" . }}
{{- end -}}

{{- define "causeway.secretFileSources" -}}
{{- range .Values.secrets.files }}
- secret:
    name: {{ .secretName }}
    items:
      - key: {{ .key }}
        path: {{ printf "files/%s" .path }}
{{- end }}
{{- end -}}

{{/* The file for each key of a Kafka user's Secret. The file has the name of the librdkafka property that it sets. */}}
{{- define "causeway.kafkaSecretFiles" -}}
passwordKey: sasl.password
caKey: ssl.ca.location
certificateKey: ssl.certificate.location
privateKeyKey: ssl.key.location
{{- end -}}

{{- define "causeway.keyedSecretSource" -}}
{{- $values := .values -}}
{{- $items := list -}}
{{- range $from, $to := .keys -}}
{{-   with get $values $from -}}
{{-     $items = append $items (dict "key" . "path" (printf "%s/%s" $.path $to)) -}}
{{-   end -}}
{{- end -}}
{{- if and $items (not .values.secretName) -}}
{{-   fail (printf "%s.secretName: is required with its keys" .name) -}}
{{- end -}}
{{- if and .values.secretName (not $items) -}}
{{-   fail (printf "%s: names a Secret, but no key of it" .name) -}}
{{- end -}}
{{- if $items }}
- secret:
    name: {{ .values.secretName }}
    items: {{- toYaml $items | nindent 6 }}
{{- end }}
{{- end -}}
