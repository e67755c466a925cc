/// What no key says alone: rules between keys that are each in order.
enum ConfigurationConsistency {
    static func faults(
        of configuration: WorkerConfiguration,
        place: (String) -> ConfigurationPlace?
    ) -> [PlacedFault] {
        var faults: [PlacedFault] = []
        func add(_ key: String, _ message: String) {
            faults.append(PlacedFault(place: place(key) ?? .whole, key: key, message: message))
        }

        let topics = configuration.kafka.topics
        var topicKeys: [String: String] = [:]
        for (key, topic) in [
            ("commands", topics.commands), ("registrations", topics.registrations), ("results", topics.results),
            ("invalidations", topics.invalidations), ("deadLetters", topics.deadLetters),
        ] {
            if let other = topicKeys.updateValue(key, forKey: topic) {
                add("kafka.topics.\(key)", "is the same topic as \(other)")
            }
        }

        let redis = configuration.redis
        if (redis.certificateFile == nil) != (redis.keyFile == nil) {
            add(
                redis.certificateFile == nil ? "redis.keyFile" : "redis.certificateFile",
                "certificateFile and keyFile belong together"
            )
        }

        var bundles: [String: String] = [:]
        for app in configuration.apps {
            let section = "\(ConfigurationSchema.appsSection).\(app.name)"
            if let other = bundles.updateValue(app.name, forKey: app.bundleId) {
                add("\(section).bundleId", "is the bundle id of \(other) already")
            }
            if (app.sandboxKeyId == nil) != (app.sandboxKeyFile == nil) {
                add(
                    app.sandboxKeyId == nil ? "\(section).sandboxKeyFile" : "\(section).sandboxKeyId",
                    "sandboxKeyId and sandboxKeyFile belong together"
                )
            }
        }
        return faults
    }
}
