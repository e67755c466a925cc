import Testbed
import Testing

@testable import CausewayConfiguration

@Suite("Faults of a configuration", .ownThread)
struct ConfigurationFaultTests {
    @Test(arguments: [
        ("worker: {lanes: 257}", "c.yaml:11:17: worker.lanes: 257 is not in 0...256"),
        ("worker:\n  lanes: -1", "c.yaml:12:10: worker.lanes: -1 is not in 0...256"),
        ("worker:\n  lanes: many", "c.yaml:12:10: worker.lanes: must be a whole number in 0...256"),
        ("worker:\n  lanes: \"4\"", "c.yaml:12:10: worker.lanes: must be a whole number in 0...256"),
        ("worker:\n  lanes: 1.5", "c.yaml:12:10: worker.lanes: must be a whole number in 0...256"),
        ("worker:\n  lanes: 010", "c.yaml:12:10: worker.lanes: must be a whole number in 0...256"),
        ("worker:\n  lanes: 1:30", "c.yaml:12:10: worker.lanes: must be a whole number in 0...256"),
        ("worker:\n  lanes: 99999999999999999999", "c.yaml:12:10: worker.lanes: must be a whole number in 0...256"),
        ("worker:\n  lanes:", "c.yaml:12:3: worker.lanes: must be a whole number in 0...256"),
        ("worker:\n  lanes: [1]", "c.yaml:12:10: worker.lanes: must be a whole number in 0...256"),
        ("worker:\n  lanez: 1", "c.yaml:12:3: worker.lanez: is not a key; did you mean lanes?"),
        ("worker:\n  colour: 1", "c.yaml:12:3: worker.colour: is not a key"),
        ("worker.lanes: 1", "c.yaml:11:1: worker.lanes: has a dot; write nested sections, each indented"),
        ("wroker:\n  lanes: 1", "c.yaml:11:1: wroker: is not a key; did you mean worker?"),
        ("worker: 4", "c.yaml:11:9: worker: is a section: indent its keys below it"),
        (
            "log:\n  level: loud",
            "c.yaml:12:10: log.level: is not one of trace, debug, info, notice, warning, error, critical"
        ),
        ("log:\n  format: {a: b}", "c.yaml:12:11: log.format: must be one value"),
        ("apns:\n  caFile: [a]", "c.yaml:12:11: apns.caFile: must be one value"),
        ("apns:\n  sandbox:\n    host: a b", "c.yaml:13:11: apns.sandbox.host: is not a host name or an address"),
    ])
    func `Each fault is reported with its place and its reason`(yaml: String, line: String) {
        #expect(faults(of: smallestFile + yaml + "\n") == [line])
    }

    @Test(arguments: [
        ("groupId: ''", "c.yaml:3:12: kafka.groupId: must have 1 to 255 bytes"),
        (
            "topics: {results: a/b}",
            "c.yaml:3:21: kafka.topics.results: is not a topic name: 1 to 249 of letters, digits, '.', '_' and '-'"
        ),
        ("topics: {results: x, commands: x}", "c.yaml:3:21: kafka.topics.results: is the same topic as commands"),
        ("consumer: {group.id: x}", "c.yaml:3:14: kafka.consumer.group.id: cannot be set here: use kafka.groupId"),
        ("consumer: {fetch: {min: 1}}", "c.yaml:3:14: kafka.consumer.fetch: must be one value"),
        ("producer: {'a b': 1}", "c.yaml:3:14: kafka.producer.a b: is not the name of a librdkafka property"),
    ])
    func `Each fault in a section of Kafka is named`(yaml: String, line: String) {
        let text = smallestFile.replacingRequired("redis:\n", with: "  \(yaml)\nredis:\n")
        #expect(faults(of: text) == [line])
    }

    @Test(arguments: [
        (
            "keyId: KEY1234567", "keyId: short",
            "c.yaml:9:12: apps.match.keyId: must be 10 uppercase letters and digits"
        ),
        (
            "teamId: TEAM123456", "teamId: lowercase1",
            "c.yaml:8:13: apps.match.teamId: must be 10 uppercase letters and digits"
        ),
        ("keyFile: key.p8", "keyFile: ''", "c.yaml:10:14: apps.match.keyFile: must name a file"),
        (
            "keyFile: key.p8", "environments: [production]",
            "c.yaml:6:3: apps.match.keyFile: is required (or CAUSEWAY_APPS_MATCH_KEY_FILE in the environment)"
        ),
        (
            "bundleId: com.example.match", "bundleId: a/b",
            "c.yaml:7:15: apps.match.bundleId: is not a bundle id: 1 to 155 of letters, digits, '.' and '-'"
        ),
        ("match:", "My-App:", "c.yaml:6:3: apps.My-App: an app's name is 1 to 32 lowercase letters and digits"),
        (
            "keyFile: key.p8", "keyFile: k\n    environments: [test]",
            "c.yaml:11:19: apps.match.environments: must be one or more of production, sandbox, each once"
        ),
        (
            "keyFile: key.p8", "keyFile: k\n    environments: [sandbox, sandbox]",
            "c.yaml:11:19: apps.match.environments: must be one or more of production, sandbox, each once"
        ),
        (
            "keyFile: key.p8", "keyFile: k\n    environments: sandbox",
            "c.yaml:11:19: apps.match.environments: must be a list such as [production, sandbox]"
        ),
        (
            "keyFile: key.p8", "keyFile: k\n    sandboxKeyId: KEY1234567",
            "c.yaml:11:19: apps.match.sandboxKeyId: set sandboxKeyId and sandboxKeyFile together, or neither"
        ),
        (
            "keyFile: key.p8", "keyFile: k\n    keyFiel: k",
            "c.yaml:11:5: apps.match.keyFiel: is not a key; did you mean keyFile?"
        ),
    ])
    func `Each fault of an app is named`(validText: String, wrongText: String, line: String) {
        #expect(
            faults(of: smallestFile.replacingRequired(validText, with: wrongText))
                .filter { !$0.contains("must have 1 to 255 apps") } == [
                    line
                ]
        )
    }

    @Test(arguments: [
        ("http://collector:4318", true), ("http://collector/otlp/", true), ("https://collector", true),
        ("https://u:p@collector", false),
        ("https://[::1]:4318/otlp", true), ("https://", false),
        ("http://[::1]:4318", true),
        ("http://10.0.0.1", true), ("http://a/\u{e9}", false), ("http://::1:4318", false),
        ("collector:4318", false), ("grpc://collector:4317", false), ("http://", false),
        ("http://:4318", false), ("http://a:0", false), ("http://a:b", false), ("http://a b", false),
        ("http://u:p@collector", false), ("http://a?x=1", false), ("http://a:4318:1", false),
    ])
    func `The endpoint for traces is a URL of HTTP without a password`(url: String, isValid: Bool) {
        let lines = faults(of: smallestFile + "tracing:\n  endpoint: '\(url)'\n")
        let line = "c.yaml:12:13: tracing.endpoint: must be http://host[:port][/path], or https"
        #expect(lines == (isValid ? [] : [line]))
    }

    @Test func `TLS files need https, and a secret is never sent without TLS`() {
        let files = "  caFile: ca.pem\n  headersFile: headers\n"
        #expect(faults(of: smallestFile + "tracing:\n  endpoint: https://collector\n\(files)") == [])
        #expect(
            faults(of: smallestFile + "tracing:\n  endpoint: http://collector\n\(files)") == [
                "c.yaml:13:11: tracing.caFile: is only for a tracing.endpoint with https",
                "c.yaml:14:16: tracing.headersFile: is only for a tracing.endpoint with https: http would expose the headers",
            ]
        )
        #expect(faults(of: smallestFile + "tracing:\n\(files)").count == 2)
        let missingFileFaults = faults(
            of: smallestFile + "tracing:\n  endpoint: https://collector\n  headersFile: /nowhere\n",
            requiresFiles: true
        )
        #expect(missingFileFaults.contains { $0.contains("tracing.headersFile") })
    }

    @Test func `Two apps with one bundle id are a fault`() {
        let secondApp = "  other: {bundleId: com.example.match, teamId: TEAM123456, keyId: KEY1234567, keyFile: k}\n"
        #expect(
            faults(of: smallestFile + secondApp) == [
                "c.yaml:11:21: apps.other.bundleId: is already the bundle id of match"
            ]
        )
    }

    @Test func `All faults are reported at once, the file's first and in its order`() {
        let lines = faults(
            of: "redis:\n  uri: x\nworker:\n  lanes: 999\n  retryMillisecondsMax: no\n",
            environment: ["CAUSEWAY_WORKER_LANEZ": "1", "CAUSEWAY_LOG_LEVEL": "loud"]
        )
        #expect(
            lines == [
                "c.yaml:2:3: redis.uri: is not a key; did you mean url?",
                "c.yaml:4:10: worker.lanes: 999 is not in 0...256",
                "c.yaml:5:25: worker.retryMillisecondsMax: must be a whole number in 1000...3600000",
                "c.yaml: apps: must have 1 to 255 apps (or CAUSEWAY_APPS in the environment)",
                "c.yaml: kafka.bootstrapServers: is required (or CAUSEWAY_KAFKA_BOOTSTRAP_SERVERS in the environment)",
                "c.yaml: redis.url: is required (or CAUSEWAY_REDIS_URL in the environment)",
                "CAUSEWAY_LOG_LEVEL: log.level: is not one of trace, debug, info, notice, warning, error, critical",
                "CAUSEWAY_WORKER_LANEZ: is not the variable of any key; did you mean CAUSEWAY_WORKER_LANES?",
            ]
        )
    }

    @Test(arguments: [
        ("a: [", "c.yaml:2:1: is not YAML: did not find expected node content"),
        ("- a\n- b", "c.yaml:1:1: must be a map of sections, such as kafka: and redis:"),
        ("just text", "c.yaml:1:1: must be a map of sections, such as kafka: and redis:"),
        ("worker:\n\tlanes: 1", "c.yaml:2:1: is not YAML: found character that cannot start any token"),
        ("x: [[1]]", "c.yaml:1:5: is a list or a map in a list; a list can have only single values"),
        ("x: [{a: 1}]", "c.yaml:1:5: is a list or a map in a list; a list can have only single values"),
        ("? [a]\n: b", "c.yaml:1:3: must be a text, because it is a key"),
        (
            String(repeating: "{a: ", count: 16) + "1" + String(repeating: "}", count: 16),
            "c.yaml:1:65: is nested deeper than 16 levels"
        ),
        ("x: [\(String(repeating: "1,", count: 10_000))]", "c.yaml: has more than 10000 values"),
    ])
    func `A document that is no configuration is refused`(yaml: String, line: String) {
        #expect(faults(of: yaml) == [line])
    }

    @Test func `A duplicate key is a fault`() {
        let lines = faults(of: "worker:\n  lanes: 1\n  lanes: 2\n")
        #expect(lines.count == 1)
        #expect(lines[0].contains("has a key twice: lanes"))
    }

    @Test func `Hostile files are refused quickly`() {
        // Each level has nine references to the level below it, so the highest level stands for more than 9^11 values.
        let aliases = (1..<12)
            .reduce("a0: &a0 {x: 1, y: 2}\n") { text, level in
                let members = (0..<9).map { "k\($0): *a\(level - 1)" }.joined(separator: ", ")
                return text + "a\(level): &a\(level) {\(members)}\n"
            }
        #expect(faults(of: aliases).count == 1)
        #expect(faults(of: String(repeating: "[", count: 100_000)).count == 1)
        #expect(faults(of: String(repeating: "#", count: 2_000_000)) == ["c.yaml: is larger than 1048576 bytes"])
    }

    @Test func `A variable with a wrong value or name is a fault, unless it is one that Kubernetes sets`() {
        func faultLines(_ name: String, _ value: String) -> [String] {
            faults(of: smallestFile, environment: [name: value])
        }
        #expect(
            faultLines("CAUSEWAY_WORKER_LANES", "x") == [
                "CAUSEWAY_WORKER_LANES: worker.lanes: must be a whole number in 0...256"
            ]
        )
        #expect(
            faultLines("CAUSEWAY_APPS_OTHER_KEY_ID", "x").first?
                .hasPrefix("CAUSEWAY_APPS_OTHER_KEY_ID: is not the variable of any key") == true
        )
        #expect(
            faultLines("CAUSEWAY_APPS", "a_b").first?.hasPrefix("CAUSEWAY_APPS: apps: an app's name is 1 to 32") == true
        )
        #expect(faultLines("CAUSEWAY_TELEMETRY", "x") == ["CAUSEWAY_TELEMETRY: is not the variable of any key"])
        for (name, value) in [
            ("CAUSEWAY_SERVICE_HOST", "10.0.0.1"), ("CAUSEWAY_SERVICE_PORT", "80"),
            ("CAUSEWAY_SERVICE_PORT_HTTP", "80"),
            ("CAUSEWAY_PORT", "tcp://10.0.0.1:80"), ("CAUSEWAY_PORT_80_TCP", "tcp://10.0.0.1:80"),
            ("CAUSEWAY_PORT_80_TCP_PORT", "80"), ("CAUSEWAY_METRICS_PORT_9090_TCP_ADDR", "10.0.0.1"),
            ("CAUSEWAY_METRICS_SERVICE_HOST", "10.0.0.1"),
        ] {
            #expect(faultLines(name, value).isEmpty, "\(name)")
        }
        #expect(!faultLines("CAUSEWAY_PORT", "80").isEmpty)
    }

    @Test func `A wrong secret is not printed`() {
        let lines = faults(of: smallestFile.replacingRequired("redis://cache", with: "redis://:hunter2@cache:port"))
        #expect(lines.count == 1)
        #expect(lines[0].hasPrefix("c.yaml:4:8: redis.url: Redis URL: port must be 1 through 65535"))
        #expect(!lines[0].contains("hunter2"))
        #expect(
            faults(of: smallestFile, environment: ["CAUSEWAY_REDIS_URL": "hunter2"]).first?.contains("hunter2") == false
        )
    }

    @Test func `Files must be readable if that is required`() {
        #expect(
            faults(of: smallestFile.replacingRequired("key.p8", with: "/nowhere/key.p8"), requiresFiles: true)
                == ["c.yaml:10:14: apps.match.keyFile: /nowhere/key.p8: cannot be opened: No such file or directory"]
        )
        #expect(
            faults(of: smallestFile.replacingRequired("key.p8", with: "/tmp"), requiresFiles: true)
                == ["c.yaml:10:14: apps.match.keyFile: /tmp: is not a file"]
        )
        let loader = ConfigurationLoader(environment: [:], requiresFiles: true)
        #expect(throws: ConfigurationFaults.self) { try loader.load(path: "/nowhere/c.yaml") }
    }
}
