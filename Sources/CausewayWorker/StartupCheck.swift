import APNs
import CausewayConfiguration
import Glibc
import Kafka
import LiveActivity
import Reactor
import Redis

/// Finds faults that otherwise only the start of a worker would show, such as a damaged key file or an unknown property
/// of a Kafka client. Tries each part of the configuration separately, so that one fault does not hide another.
/// ``WorkerSetup`` uses the same code.
package enum StartupCheck {
    /// Returns the faults, each with the configuration key that must be changed.
    ///
    /// - Parameter requiresFiles: whether a missing file is a fault. If not, missing files are not checked.
    package static func findFaults(
        of configuration: WorkerConfiguration,
        requiresFiles: Bool
    ) -> [(key: String, message: String)] {
        var findings = Findings(requiresFiles: requiresFiles)
        checkSigningKeys(configuration, &findings)
        for app in configuration.apps {
            findings.checkKey("apps.\(app.name).shapes.file", file: app.shapes.file) { _ in
                _ = try app.readContractRule()
            }
        }
        let apns = configuration.apns
        findings.checkKey("apns.caFile", file: apns.caFile) { _ in _ = try WorkerSetup.makeTLSContext(of: apns) }
        findings.checkKey("apns.sharedTokenKeyFile", file: apns.sharedTokenKeyFile) {
            _ = try ProviderTokenCipher(keyFile: $0)
        }
        checkRedis(configuration.redis, &findings)
        checkTracing(configuration.tracing, &findings)
        checkKafka(configuration.kafka, &findings)
        checkMemory(configuration, &findings)
        return findings.faults
    }

    private static func checkSigningKeys(_ configuration: WorkerConfiguration, _ findings: inout Findings) {
        for app in configuration.apps {
            for environment in app.environments {
                let signingKey = app.signingKey(for: environment)
                let hasSandboxKeyFile = environment == .sandbox && app.sandboxKeyFile != nil
                findings.checkKey(
                    "apps.\(app.name).\(hasSandboxKeyFile ? "sandboxKeyFile" : "keyFile")",
                    file: signingKey.file
                ) {
                    _ in
                    _ = try WorkerSetup.makeTokenSource(signingKey)
                }
            }
        }
    }

    private static func checkRedis(_ redis: WorkerConfiguration.Redis, _ findings: inout Findings) {
        var configurationWithoutFiles = redis
        configurationWithoutFiles.passwordFile = nil
        configurationWithoutFiles.sentinelPasswordFile = nil
        configurationWithoutFiles.caFile = nil
        configurationWithoutFiles.certificateFile = nil
        configurationWithoutFiles.keyFile = nil
        guard findings.checkKey("redis.url", { _ = try RedisConfiguration(configurationWithoutFiles) }) else { return }
        func checkFile(_ name: String, _ path: WritableKeyPath<WorkerConfiguration.Redis, String?>) {
            findings.checkKey("redis.\(name)", file: redis[keyPath: path]) { file in
                var configurationWithOneFile = configurationWithoutFiles
                configurationWithOneFile[keyPath: path] = file
                _ = try RedisConfiguration(configurationWithOneFile)
            }
        }
        checkFile("passwordFile", \.passwordFile)
        checkFile("sentinelPasswordFile", \.sentinelPasswordFile)
        checkFile("caFile", \.caFile)
        guard let keyFile = redis.keyFile, access(keyFile, F_OK) == 0 else { return }
        findings.checkKey("redis.certificateFile", file: redis.certificateFile) { file in
            var configurationWithOneFile = configurationWithoutFiles
            (configurationWithOneFile.certificateFile, configurationWithOneFile.keyFile) = (file, keyFile)
            _ = try RedisConfiguration(configurationWithOneFile)
        }
    }

    private static func checkTracing(_ tracing: WorkerConfiguration.Tracing, _ findings: inout Findings) {
        var configurationWithoutFiles = tracing
        (configurationWithoutFiles.caFile, configurationWithoutFiles.headersFile) = (nil, nil)
        findings.checkKey("tracing.caFile", file: tracing.caFile) { file in
            var configurationWithOneFile = configurationWithoutFiles
            configurationWithOneFile.caFile = file
            _ = try WorkerSetup.makeTraceCollector(configurationWithOneFile)
        }
        findings.checkKey("tracing.headersFile", file: tracing.headersFile) { file in
            var configurationWithOneFile = configurationWithoutFiles
            configurationWithOneFile.headersFile = file
            _ = try WorkerSetup.makeTraceCollector(configurationWithOneFile)
        }
    }

    private static func checkKafka(_ kafka: WorkerConfiguration.Kafka, _ findings: inout Findings) {
        var configurationWithPresentFiles = kafka
        configurationWithPresentFiles.propertyFiles.removeAll { !findings.shouldCheckFile($0.path) }
        for file in kafka.propertyFiles where file.name == "sasl.password" && !findings.shouldCheckFile(file.path) {
            // librdkafka refuses a user without a password, and the password's file is not on this machine. So check
            // with any password: here the file's path.
            configurationWithPresentFiles.properties.append(KafkaProperty(name: file.name, value: file.path))
        }
        func canCheck(_ property: KafkaProperties.Property) -> Bool {
            // If a property names a missing file or directory, check the property only with `requiresFiles`.
            KafkaPropertyFile(property).map { findings.shouldCheckFile($0.path) } ?? true
        }
        do {
            for fault in Consumer.findFaults(of: try configurationWithPresentFiles.consumerProperties.filter(canCheck))
            {
                findings.add(
                    findConfigurationKey(of: fault.name, in: kafka, ("consumer", kafka.consumer)),
                    fault.reason
                )
            }
            for fault in Producer.findFaults(of: try configurationWithPresentFiles.producerProperties.filter(canCheck))
            {
                findings.add(
                    findConfigurationKey(of: fault.name, in: kafka, ("producer", kafka.producer)),
                    fault.reason
                )
            }
        } catch {
            findings.add("kafka.properties", "\(error)")
        }
    }

    /// Checks whether the configured memory is enough for the configured number of lanes, or for one lane if no number
    /// is configured. Checks nothing if no memory is configured: the worker then takes it from its machine, which may
    /// not be the machine of this check.
    private static func checkMemory(_ configuration: WorkerConfiguration, _ findings: inout Findings) {
        let worker = configuration.worker
        guard worker.memoryMebibytes > 0 else { return }
        do {
            _ = try MemoryBudget(configuration, laneCount: max(1, worker.lanes))
        } catch {
            findings.add("worker.memoryMebibytes", error.reason)
        }
    }

    /// Returns a fault if a worker on this machine would have too little memory for its lanes. The machine supplies the
    /// memory or the number of lanes if it is not configured.
    static func findMemoryFaults(of configuration: WorkerConfiguration) -> [(key: String, message: String)] {
        do {
            _ = try MemoryBudget(configuration, laneCount: WorkerSetup.laneCount(of: configuration))
            return []
        } catch {
            return [(key: "worker.memoryMebibytes", message: error.reason)]
        }
    }

    /// Returns the configuration key that gives a librdkafka property its value. If no key gives it a value, returns
    /// the key under which the property can be set.
    private static func findConfigurationKey(
        of property: String,
        in kafka: WorkerConfiguration.Kafka,
        _ client: (name: String, properties: [KafkaProperty])
    ) -> String {
        switch property {
        case "": "kafka.properties"
        case "bootstrap.servers": "kafka.bootstrapServers"
        case "group.id": "kafka.groupId"
        case _ where client.properties.contains { $0.name == property }: "kafka.\(client.name).\(property)"
        case _ where kafka.propertyFiles.contains { $0.name == property }: "kafka.propertyFiles.\(property)"
        default: "kafka.properties.\(property)"
        }
    }

    /// Collects the faults, each once.
    private struct Findings {
        let requiresFiles: Bool
        private(set) var faults: [(key: String, message: String)] = []

        init(requiresFiles: Bool) { self.requiresFiles = requiresFiles }

        mutating func add(_ key: String, _ message: String) {
            if !faults.contains(where: { $0 == (key, message) }) { faults.append((key, message)) }
        }

        /// Whether a file is checked. Without `requiresFiles`, a missing file is not checked: the machine that checks
        /// the configuration may not have the worker's files.
        func shouldCheckFile(_ path: String) -> Bool { requiresFiles || access(path, F_OK) == 0 }

        /// Runs `check`, and records its error as a fault of the key.
        ///
        /// - Returns: whether there was no fault.
        @discardableResult
        mutating func checkKey(_ key: String, _ check: () throws -> Void) -> Bool {
            do {
                try check()
                return true
            } catch {
                add(key, "\(error)")
                return false
            }
        }

        mutating func checkKey(_ key: String, file: String?, _ check: (String) throws -> Void) {
            guard let file, !file.isEmpty, shouldCheckFile(file) else { return }
            checkKey(key) { try check(file) }
        }
    }
}
