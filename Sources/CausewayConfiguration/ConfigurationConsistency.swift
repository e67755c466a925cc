import LiveActivity
import Redis

/// Finds values that are valid alone, but contradict each other.
enum ConfigurationConsistency {
    /// Returns a fault for each contradiction. `place` returns the place of a key; nil if the key is not set.
    static func findFaults(
        of configuration: WorkerConfiguration,
        place: (String) -> ConfigurationPlace?
    ) -> [PlacedFault] {
        var faults: [PlacedFault] = []
        func add(_ key: String, _ message: String) {
            faults.append(PlacedFault(place: place(key) ?? .wholeFile, key: key, message: message))
        }

        let topics = configuration.kafka.topics
        var keysByTopic: [String: String] = [:]
        for (key, topic) in [
            ("commands", topics.commands), ("registrations", topics.registrations), ("results", topics.results),
            ("invalidations", topics.invalidations), ("deadLetters", topics.deadLetters),
            ("deferred", topics.deferred), ("fanout", topics.fanout), ("channels", topics.channels),
        ] {
            if let other = keysByTopic.updateValue(key, forKey: topic) {
                add("kafka.topics.\(key)", "is the same topic as \(other)")
            }
        }

        let properties = Set(configuration.kafka.properties.map(\.name))
        for file in configuration.kafka.propertyFiles where properties.contains(file.name) {
            add("kafka.propertyFiles.\(file.name)", "is also set in kafka.properties; set it in only one of them")
        }

        let redis = configuration.redis
        if (redis.certificateFile == nil) != (redis.keyFile == nil) {
            add(
                redis.certificateFile == nil ? "redis.keyFile" : "redis.certificateFile",
                "set certificateFile and keyFile together, or neither"
            )
        }
        if let (key, message) = findRedisModeFault(redis) { add(key, message) }

        let tracing = configuration.tracing
        if tracing.endpoint.flatMap(CollectorAddress.init)?.isSecure != true {
            if tracing.caFile != nil { add("tracing.caFile", "is only for a tracing.endpoint with https") }
            if tracing.headersFile != nil {
                add("tracing.headersFile", "is only for a tracing.endpoint with https: http would expose the headers")
            }
        }

        for policy in configuration.policies {
            faults += findPolicyFaults(of: policy, place: place)
        }

        faults += findAppFaults(of: configuration, place: place)
        return faults
    }

    private static func findAppFaults(
        of configuration: WorkerConfiguration,
        place: (String) -> ConfigurationPlace?
    ) -> [PlacedFault] {
        var faults: [PlacedFault] = []
        func add(_ key: String, _ message: String) {
            faults.append(PlacedFault(place: place(key) ?? .wholeFile, key: key, message: message))
        }

        let policies = configuration.policies.map(\.name)
        var appsByBundleId: [String: String] = [:]
        for app in configuration.apps {
            let section = "apps.\(app.name)"
            if let other = appsByBundleId.updateValue(app.name, forKey: app.bundleId) {
                add("\(section).bundleId", "is already the bundle id of \(other)")
            }
            if (app.sandboxKeyId == nil) != (app.sandboxKeyFile == nil) {
                add(
                    app.sandboxKeyId == nil ? "\(section).sandboxKeyFile" : "\(section).sandboxKeyId",
                    "set sandboxKeyId and sandboxKeyFile together, or neither"
                )
            }
            let missingEnvironments = app.channels.environments.filter { !app.environments.contains($0) }
            if !missingEnvironments.isEmpty,
                !app.channels.audiences.isEmpty || place("\(section).channels.environments") != nil
            {
                let key = "\(section).channels.environments"
                add(
                    key,
                    """
                    \(missingEnvironments.map { "\($0.name)" }.joined(separator: ", ")) is not one of the app's \
                    environments
                    """
                )
            }
            if !policies.contains(app.policy) {
                let suggestion = NearestName.find(nearestTo: app.policy, among: policies)
                add(
                    "\(section).policy",
                    "\(app.policy) is not in policies" + (suggestion.map { "; did you mean \($0)?" } ?? "")
                )
            }
        }
        return faults
    }

    /// Checks whether the URLs of Redis and of the Sentinels, and the Sentinels' password file, fit `redis.mode`.
    /// Returns the first fault; nil if there is none, or if `redis.url` cannot be parsed, which another check reports.
    private static func findRedisModeFault(_ redis: WorkerConfiguration.Redis) -> (key: String, message: String)? {
        guard let url = try? RedisURL(redis.url) else { return nil }
        let isUnixSocket = if case .unix = url.firstLocation { true } else { false }
        switch redis.mode {
        case .single where url.locations.count > 1:
            return ("redis.url", "has several hosts, which need redis.mode: cluster")
        case .sentinel where isUnixSocket || url.locations.count > 1:
            return ("redis.url", "must have the primary's name at the Sentinels as its host, such as redis://mymaster")
        case .sentinel where redis.sentinelURL == nil:
            return ("redis.sentinelURL", "is required with redis.mode: sentinel")
        case .cluster where isUnixSocket:
            return ("redis.url", "must have hosts: a cluster cannot be reached through a Unix socket")
        case .cluster where url.database != 0:
            return ("redis.url", "has a database other than 0, but a cluster has only database 0")
        default:
            break
        }
        guard redis.mode != .sentinel, redis.sentinelURL != nil || redis.sentinelPasswordFile != nil else { return nil }
        return (
            redis.sentinelURL == nil ? "redis.sentinelPasswordFile" : "redis.sentinelURL",
            "is only for redis.mode: sentinel"
        )
    }

    /// Returns the faults of a policy: values that contradict each other, and too many `oversize` fields. If two
    /// numbers contradict each other, the fault names the number that the operator set, because the other may be a
    /// default.
    private static func findPolicyFaults(
        of policy: Policy,
        place: (String) -> ConfigurationPlace?
    ) -> [PlacedFault] {
        var faults: [PlacedFault] = []
        /// Reports a fault if the value of `key` is above that of `limitKey`.
        func checkLimit(_ key: String, _ value: Int64, _ limitKey: String, _ limit: Int64) {
            guard value > limit else { return }
            let section = "policies.\(policy.name)"
            let (name, message) =
                place("\(section).\(key)") != nil
                ? (key, "\(value) is more than \(limitKey), which is \(limit)")
                : (limitKey, "\(limit) is less than \(key), which is \(value)")
            faults.append(
                PlacedFault(
                    place: place("\(section).\(name)") ?? .wholeFile,
                    key: "\(section).\(name)",
                    message: message
                )
            )
        }
        for (name, bucket) in [("budget", policy.budget), ("frequentBudget", policy.frequentBudget)] {
            checkLimit(
                "\(name).reservedForAlerts",
                Int64(bucket.reservedForAlerts),
                "\(name).pushes",
                Int64(bucket.pushes)
            )
        }
        checkLimit(
            "spacingMilliseconds",
            policy.spacingMilliseconds,
            "throttledSpacingMillisecondsMax",
            policy.throttledSpacingMillisecondsMax
        )
        if policy.afterLifetime == .restart, policy.lifetimeSeconds == 0 {
            let key = "policies.\(policy.name).afterLifetime"
            let message = "needs lifetimeSeconds above 0"
            faults.append(PlacedFault(place: place(key) ?? .wholeFile, key: key, message: message))
        }
        if policy.oversize.count > OversizeFields.fieldsMax {
            let key = "policies.\(policy.name).oversize"
            let message = "has \(policy.oversize.count) fields, at most \(OversizeFields.fieldsMax) are allowed"
            faults.append(PlacedFault(place: place(key) ?? .wholeFile, key: key, message: message))
        }
        return faults
    }
}
