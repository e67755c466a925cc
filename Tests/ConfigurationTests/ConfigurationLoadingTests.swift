import LiveActivity
import Logging
import Testing

@testable import CausewayConfiguration

@Suite("Loading a configuration")
struct ConfigurationLoadingTests {
    @Test func `The required keys are enough`() throws {
        let configuration = try load(smallestFile)
        #expect(configuration.kafka.bootstrapServers == "broker:9092")
        #expect(configuration.redis.url == "redis://cache")
        #expect(configuration.worker.lanes == 0)
        #expect(configuration.log.level == .info)
        #expect(configuration.apns.endpoint(for: .production).host == "api.push.apple.com")
        let app = try #require(configuration.apps.first)
        #expect(app.name == "match")
        #expect(app.environments == [.production, .sandbox])
        #expect(app.signingKeyReference(for: .sandbox) == ("KEY1234567", "key.p8"))
    }

    @Test func `Every kind of value is read from the file`() throws {
        let configuration = try load(
            """
            log: {level: debug, format: text}
            kafka:
              bootstrapServers: a:1,b:2
              topics:
                results: r
              properties:
                security.protocol: SSL
              consumer:
                fetch.min.bytes: 1024
                check.crcs: true
              producer: {}
            redis:
              url: rediss://u:p@h:1/2
              caFile: "ca.pem"
              passwordFile:
            apns:
              sandbox: {host: 127.0.0.1, port: 8443}
              connectionsPerPool: 16
            apps:
              ride:
                bundleId: com.example.ride
                teamId: 1234567890
                keyId: 12E4567890
                keyFile: a
                environments: [sandbox]
                sandboxKeyId: SANDBOX123
                sandboxKeyFile: b
              match: {bundleId: m, teamId: TEAM123456, keyId: KEY1234567, keyFile: k, policy: sports}
            policies:
              sports:
                spacingMilliseconds: 5000
                budget: {pushes: 20}
                expiration:
                  endSeconds: 60
              a_quiet-One:
            worker:
              retryMillisecondsMax: 1000
            """
        )
        #expect(configuration.log.level == .debug)
        #expect(configuration.log.format == .text)
        #expect(configuration.kafka.topics.results == "r")
        #expect(configuration.redis.caFile == "ca.pem")
        #expect(configuration.redis.passwordFile == nil)
        #expect(configuration.apns.endpoint(for: .sandbox).port == 8443)
        #expect(configuration.worker.retryMillisecondsMax == 1_000)
        var sports = Policy(name: "sports")
        sports.spacingMilliseconds = 5_000
        sports.budget.pushes = 20
        sports.expiration.endSeconds = 60
        #expect(configuration.policies == [Policy(name: "default"), Policy(name: "a_quiet-One"), sports])
        #expect(configuration.apps.map(\.policy) == ["sports", "default"])
        #expect(configuration.apps.map(\.name) == ["match", "ride"])
        #expect(configuration.apps[1].keyId == "12E4567890")
        #expect(configuration.apps[1].environments == [.sandbox])
        #expect(configuration.apps[1].signingKeyReference(for: .sandbox) == ("SANDBOX123", "b"))
        let consumer = try configuration.kafka.consumerProperties.map { "\($0.name)=\($0.value)" }
        #expect(
            consumer == [
                "bootstrap.servers=a:1,b:2", "group.id=causeway", "statistics.interval.ms=2000",
                "security.protocol=SSL",
                "check.crcs=true", "fetch.min.bytes=1024",
            ]
        )
        let producer = try configuration.kafka.producerProperties.map { "\($0.name)=\($0.value)" }
        #expect(producer.dropFirst() == ["linger.ms=50", "batch.size=262144", "security.protocol=SSL"])
    }

    @Test func `The environment overrides the file, key by key`() throws {
        let configuration = try load(
            smallestFile + "worker: {lanes: 3, retryMillisecondsMax: 2000}\n",
            environment: [
                "CAUSEWAY_WORKER_LANES": "5",
                "CAUSEWAY_KAFKA_GROUP_ID": "blue",
                "CAUSEWAY_KAFKA_CONSUMER_FETCH_MIN_BYTES": "7",
                "CAUSEWAY_APPS_MATCH_ENVIRONMENTS": "production",
                "CAUSEWAY_LOG_FORMAT": "text",
                "PATH": "/bin",
            ]
        )
        #expect(configuration.worker.lanes == 5)
        #expect(configuration.worker.retryMillisecondsMax == 2_000)
        #expect(configuration.kafka.groupId == "blue")
        #expect(configuration.kafka.consumer == [KafkaProperty(name: "fetch.min.bytes", value: "7")])
        #expect(configuration.apps[0].environments == [.production])
        #expect(configuration.log.format == .text)
    }

    @Test func `The environment alone is enough`() throws {
        let loader = ConfigurationLoader(
            environment: [
                "CAUSEWAY_KAFKA_BOOTSTRAP_SERVERS": "b:1", "CAUSEWAY_REDIS_URL": "redis://r",
                "CAUSEWAY_APPS": "match, ride",
                "CAUSEWAY_APPS_MATCH_BUNDLE_ID": "m", "CAUSEWAY_APPS_MATCH_TEAM_ID": "TEAM123456",
                "CAUSEWAY_APPS_MATCH_KEY_ID": "KEY1234567", "CAUSEWAY_APPS_MATCH_KEY_FILE": "k",
                "CAUSEWAY_APPS_RIDE_BUNDLE_ID": "r", "CAUSEWAY_APPS_RIDE_TEAM_ID": "TEAM123456",
                "CAUSEWAY_APPS_RIDE_KEY_ID": "KEY1234567", "CAUSEWAY_APPS_RIDE_KEY_FILE": "k",
            ],
            requiresFiles: false
        )
        #expect(try loader.load(path: nil).apps.map(\.bundleId) == ["m", "r"])
    }

    @Test func `Each key has the variable that swift-configuration looks for`() throws {
        for key in ConfigurationSchema.keys {
            let variable = ConfigurationNames.variable(of: key.name)
            switch key.valueKind {
            case .integer(let range):
                let foundFaults = faults(of: smallestFile, environment: [variable: "\(range.upperBound + 1)"])
                #expect(foundFaults.count == 1 && foundFaults.allSatisfy { $0.hasPrefix("\(variable): \(key.name): ") })
            case .choice(let names):
                #expect(
                    faults(of: smallestFile, environment: [variable: "?"])
                        == ["\(variable): \(key.name): is not one of \(names.joined(separator: ", "))"]
                )
            case .text:
                let value = try #require(
                    ["name", "redis://name", "127.0.0.1", "http://name"].first { key.rule.findFault($0) == nil }
                )
                var environment = [variable: value]
                if key.name.hasPrefix("tracing."), key.isFilePath {
                    environment[ConfigurationNames.variable(of: "tracing.endpoint")] = "https://name"
                }
                // These two keys are valid only together.
                for partner in ["redis.certificateFile", "redis.keyFile"]
                where key.name.hasPrefix("redis.") && key.isFilePath {
                    environment[ConfigurationNames.variable(of: partner)] = value
                }
                if key.name.hasPrefix("redis.sentinel") {
                    environment["CAUSEWAY_REDIS_MODE"] = "sentinel"
                    environment["CAUSEWAY_REDIS_SENTINEL_URL"] = "redis://name"
                }
                #expect(try key.yamlText(load(smallestFile, environment: environment)) == value)
            case .choices, .texts, .properties:
                break
            }
        }
    }

    @Test func `A number beyond a limit of its key is refused`() {
        for key in ConfigurationSchema.keys {
            guard case .integer(let range) = key.valueKind else { continue }
            let variable = ConfigurationNames.variable(of: key.name)
            for value in [range.lowerBound - 1, range.upperBound + 1] {
                let fault = "\(value) is not in \(range.lowerBound)...\(range.upperBound)"
                #expect(
                    faults(of: smallestFile, environment: [variable: "\(value)"])
                        == ["\(variable): \(key.name): \(fault)"]
                )
            }
        }
    }

    @Test func `Printing a Kafka property prints no value`() {
        let property = KafkaProperty(name: "sasl.password", value: "hunter2")
        #expect(!"\(property) \(String(reflecting: [property]))".contains("hunter2"))
    }
}
