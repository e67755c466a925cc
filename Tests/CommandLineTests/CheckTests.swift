import Foundation
import Testbed
import Testing

@Suite("causeway check", .ownThread)
struct CheckTests {
    /// An update that `causeway check` accepts. The tests change it.
    let update =
        #"{"app":"com.example.match","activity":"a","#
        + #""aps":{"event":"update","timestamp":1790000000,"content-state":{}}}"#

    @Test func `For a valid configuration, the check prints nothing on standard output and exits with 0`() throws {
        let run = try ProgramRun.run("check", "--config", Repository.path("Config/causeway.yaml"))
        #expect(run.exitCode == 0)
        #expect(run.output.isEmpty)
        #expect(run.errorLines == ["configuration: no errors"])
    }

    @Test func `The check prints a line for each fault of a configuration, and exits with 1`() throws {
        let directory = try TemporaryDirectory()
        try directory.write("worker:\n  lanez: 1\nredis:\n  url: redis://h\n", to: "c.yaml")
        let path = directory.path("c.yaml")
        let run = try ProgramRun.run(
            "check",
            "--config",
            path,
            environment: ["CAUSEWAY_KAFKA_BOOTSTRAP_SERVERS": "b:1", "CAUSEWAY_NONSENSE": "1"]
        )
        #expect(run.exitCode == 1)
        #expect(
            run.outputLines == [
                "\(path):2:3: worker.lanez: is not a key; did you mean lanes?",
                "\(path): apps: must have 1 to 255 apps (or CAUSEWAY_APPS in the environment)",
                "CAUSEWAY_NONSENSE: is not the variable of any key",
            ]
        )
        #expect(run.errorLines == ["configuration: 3 errors"])
    }

    @Test func `Sessions that brokers refuse by default, and too few heartbeats, cause warnings and are no faults`()
        throws
    {
        let directory = try TemporaryDirectory()
        let yaml = try Repository.text("Config/causeway.yaml")
        func warnings(_ consumer: String) throws -> [String] {
            try directory.write(yaml.replacing("  consumer: {}", with: "  consumer: {\(consumer)}"), to: "c.yaml")
            let run = try ProgramRun.run("check", "--config", directory.path("c.yaml"))
            #expect(run.exitCode == 0 && run.output.isEmpty && run.errorLines.last == "configuration: no errors")
            return run.errorLines.dropLast().map { $0.replacing(directory.path("c.yaml"), with: "c.yaml") }
        }
        #expect(try warnings("session.timeout.ms: 6000").isEmpty)
        #expect(
            try warnings("session.timeout.ms: 5999") == [
                "c.yaml: warning: kafka.consumer.session.timeout.ms: 5999 is less than brokers accept by default "
                    + "(group.min.session.timeout.ms, 6000), so they reject the worker"
            ]
        )
        #expect(
            try warnings("heartbeat.interval.ms: 2667") == [
                "c.yaml: warning: kafka.consumer.heartbeat.interval.ms: 2667 is more than a third of session.timeout.ms, "
                    + "which is 8000: a worker loses its partitions after one late heartbeat"
            ]
        )
        #expect(
            try warnings("session.timeout.ms: 1800001, max.poll.interval.ms: 1800001").first?
                .contains("group.max.session.timeout.ms") == true
        )
    }

    @Test func `A Kafka password whose file is elsewhere is no fault, unless files are checked`() throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(
            """
            kafka:
              bootstrapServers: kafka:9092
              properties: {security.protocol: SASL_PLAINTEXT, sasl.mechanism: SCRAM-SHA-512, sasl.username: push}
              propertyFiles: {sasl.password: /nowhere/kafka-password}
            redis: {url: "redis://redis:6379"}
            apps:
              match: {bundleId: com.example.match, teamId: A1B2C3D4E5, keyId: F6G7H8I9J0, keyFile: /nowhere/key.p8}
            """,
            to: "causeway.yaml"
        )
        let run = try ProgramRun.run("check", "--config", file.path)
        #expect(run.exitCode == 0, "\(run.output)")
        let runWithFiles = try ProgramRun.run("check", "--config", file.path, "--files")
        #expect(
            runWithFiles.exitCode == 1 && runWithFiles.output.contains("/nowhere/kafka-password"),
            "\(runWithFiles.output)"
        )
    }

    @Test func `Files that the configuration names are checked on request`() throws {
        let file = Repository.path("Config/causeway.yaml")
        let run = try ProgramRun.run("check", "--files", "--config", file)
        #expect(run.exitCode == 1)
        #expect(run.outputLines.count == 1)
        #expect(run.output.contains("apps.match.keyFile: /etc/causeway/AuthKey_EXAMPLEKEY.p8: cannot be opened"))
    }

    @Test func `A record in a file may take one line or several`() throws {
        let directory = try TemporaryDirectory()
        try directory.write(update + "\n" + update + "\n", to: "lines.jsonl")
        try directory.write(update.replacing(",", with: ",\n  ") + "\n", to: "spread.json")
        let token = String(repeating: "ab", count: 32)
        try directory.write(
            #"{"app":"com.example.match","environment":"sandbox","registeredAt":1790000000000,"activity":"a","token":"\#(token)"}"#,
            to: "tokens.json"
        )
        let run = try ProgramRun.run(
            "check",
            "--commands",
            directory.path("lines.jsonl"),
            "--commands",
            directory.path("spread.json"),
            "--registrations",
            directory.path("tokens.json")
        )
        #expect(run.output == "")
        #expect(run.errorLines == ["records checked: 4, errors: 0"])
        #expect(run.exitCode == 0)
    }

    @Test func `Valid records about channels are accepted, and wrong combinations are reported`() throws {
        let directory = try TemporaryDirectory()
        func command(to text: String) -> String { update.replacing(#""activity":"a""#, with: text) }
        let token = String(repeating: "ab", count: 32)
        let device =
            #"{"app":"com.example.match","environment":"sandbox","registeredAt":1790000000000,"device":"d","#
            + #""attributesType":"A","token":"\#(token)","channels":true}"#
        try directory.write(device, to: "right.json")
        try directory.write(device.replacing("true", with: "1"), to: "wrong.json")
        let validCommands = [
            command(to: #""audience":"final","channel":true"#),
            command(to: #""channel":"YWI=","environment":"sandbox""#),
        ]
        let invalidCommands = [
            command(to: #""activity":"a","channel":true"#), command(to: #""channel":"ab-_""#),
            command(to: #""activity":"a","channel":"YWI=""#),
        ]
        let run = try ProgramRun.run(
            "check",
            "--commands",
            "-",
            "--registrations",
            directory.path("right.json"),
            "--registrations",
            directory.path("wrong.json"),
            input: (validCommands + invalidCommands).joined(separator: "\n")
        )
        let reportedFields = run.outputLines.map { $0.split(separator: " ").dropFirst().first.map(String.init) }
        #expect(reportedFields == ["channel:", "channel:", "channel:", "channels:"], "\(run.output)")
        #expect(run.errorLines == ["records checked: 7, errors: 4"])
        #expect(run.exitCode == 1)
    }

    @Test func `The example of channels is valid, and a wrong key in its configuration is reported`() throws {
        let example = Repository.url("Config/examples/derby")
        func check(_ configuration: String) throws -> ProgramRun {
            try ProgramRun.run(
                "check",
                "--config",
                configuration,
                "--commands",
                example.appendingPathComponent("commands.jsonl").path,
                "--registrations",
                example.appendingPathComponent("registrations.jsonl").path
            )
        }
        let validFile = example.appendingPathComponent("causeway.yaml")
        let run = try check(validFile.path)
        #expect(
            run.output == "" && run.exitCode == 0
                && run.errorLines == ["configuration: no errors", "records checked: 12, errors: 0"]
        )
        let directory = try TemporaryDirectory()
        let wrongConfiguration = try String(contentsOf: validFile, encoding: .utf8)
            .replacing("storage: newest", with: "storage: all")
        try directory.write(wrongConfiguration, to: "causeway.yaml")
        let wrongRun = try check(directory.path("causeway.yaml"))
        #expect(
            wrongRun.outputLines.count == 1 && wrongRun.output.contains("apps.derby.channels.storage: "),
            "\(wrongRun.output)"
        )
        #expect(wrongRun.exitCode == 1)
    }

    @Test func `The example's records of audiences are valid, and wrong combinations are reported`() throws {
        let example = Repository.url("Config/examples/match")
        let run = try ProgramRun.run(
            "check",
            "--commands",
            example.appendingPathComponent("commands.jsonl").path,
            "--registrations",
            example.appendingPathComponent("registrations.jsonl").path
        )
        #expect(run.output == "" && run.errorLines == ["records checked: 9, errors: 0"])
        let digits = String(repeating: "ab", count: 32)
        let audience = update.replacing(#""activity":"a""#, with: #""audience":"final""#)
        let commandToBoth = update.replacing(#""activity":"a""#, with: #""activity":"a","audience":"final""#)
        let token = audience.replacing(
            #""audience":"final""#,
            with: #""audience":"final","token":"\#(digits)","environment":"sandbox""#
        )
        let records = [audience, commandToBoth, token].joined(separator: "\n")
        let commands = try ProgramRun.run("check", "--commands", "-", input: records)
        #expect(
            commands.outputLines == [
                "stdin:2: audience: is not allowed together with device; with activity it is allowed only in a start (at byte 0)",
                "stdin:3: token: is not allowed together with audience (at byte 0)",
                "stdin:3: environment: is not allowed together with audience (at byte 0)",
            ]
        )
        let names = (1...9).map { "\"audience-\($0)\"" }.joined(separator: ",")
        let registrations = try ProgramRun.run(
            "check",
            "--registrations",
            "-",
            input:
                #"{"app":"com.example.match","environment":"sandbox","registeredAt":1790000000000,"activity":"a","#
                + #""token":"\#(digits)","audiences":[\#(names)]}"#
        )
        #expect(registrations.outputLines == ["stdin:1: audiences: 9 audiences, 8 are allowed (at byte 182)"])
    }

    @Test func `Each invalid record from standard input is reported with its line, and affects no other`() throws {
        let longRecord = update.replacing(#""timestamp":1790000000"#, with: "\n \"timestamp\": \n true")
        let lines = [update, #"{"app":"com.example.match","#, update, "nonsense", longRecord, update]
        let run = try ProgramRun.run("check", "--commands", "-", input: lines.joined(separator: "\n"))
        #expect(run.exitCode == 1)
        #expect(run.outputLines.count == 3)
        for (line, place) in zip(run.outputLines, ["stdin:2: ", "stdin:4: ", "stdin:7: aps.timestamp: must be "]) {
            #expect(line.hasPrefix(place), "\(line)")
        }
        #expect(run.errorLines == ["records checked: 6, errors: 3"])
    }

    @Test func `All faults of a record are listed, each with its own line`() throws {
        let record = """
            {
              "colour": "red", "priority": 7,
              "app": 5,
              "activity": "",
              "token": "xyz",
              "aps": {
                "event": "update",
                "timestamp": 1790000000000,
                "alert": {"title": 1, "body": "b"},
                "relevance-score": "high"
              }
            }
            """
        let run = try ProgramRun.run("check", "--commands", "-", input: record + "\n" + update)
        #expect(
            faults(run) == [
                "stdin:1 environment", "stdin:10 aps.relevance-score", "stdin:2 colour", "stdin:2 priority",
                "stdin:3 app", "stdin:4 activity",
                "stdin:5 token", "stdin:6 aps.content-state", "stdin:8 aps.timestamp",
                "stdin:9 aps.alert.title",
            ],
            "\(run.output)"
        )
        #expect(run.errorLines == ["records checked: 2, errors: 10"])
    }

    @Test func `A wrong event hides no other fault, and fields that depend on the event are not reported`() throws {
        let record = #"""
            {"app":"com.example.match","activity":"a","priority":7,
            "aps":{"event":"updat",
            "timestamp":"now",
            "attributes":{},"alert":{"title":1,"body":"b"},
            "relevance-score":"high"},
            "id":"",
            "bogus":1}
            """#
        let run = try ProgramRun.run("check", "--commands", "-", input: record)
        #expect(
            faults(run) == [
                "stdin:1 priority", "stdin:2 aps.event", "stdin:3 aps.timestamp", "stdin:4 aps.alert.title",
                "stdin:5 aps.relevance-score", "stdin:6 id", "stdin:7 bogus",
            ],
            "\(run.output)"
        )
        // If the event is wrong or missing, it is unknown which fields it requires or forbids. So only the event is
        // reported.
        let misspelt = try ProgramRun.run("check", "--commands", "-", input: update.replacing("update", with: "strat"))
        #expect(faults(misspelt) == ["stdin:1 aps.event"], "\(misspelt.output)")
        let commandWithoutEvent = update.replacing(#""event":"update","#, with: "")
            .replacing(#""activity":"a""#, with: #""device":"d""#)
        #expect(
            faults(try ProgramRun.run("check", "--commands", "-", input: commandWithoutEvent)) == ["stdin:1 aps.event"]
        )
    }

    @Test(arguments: ["5", #""text""#, "[]", "null"])
    func `A wrong aps hides no fault beside it`(_ value: String) throws {
        let record = #"{"app":"com.example.match","activity":"a","aps":\#(value),"id":"","bogus":1}"#
        let run = try ProgramRun.run("check", "--commands", "-", input: record)
        #expect(faults(run) == ["stdin:1 aps", "stdin:1 bogus", "stdin:1 id"], "\(run.output)")
    }

    /// Returns the line and the field of each fault, such as `stdin:2 aps.event`.
    private func faults(_ run: ProgramRun) -> [String] {
        run.outputLines.map { $0.split(separator: ": ").prefix(2).joined(separator: " ") }.sorted()
    }

    @Test func `A time in the future, an unknown app and an unknown policy are found together`() throws {
        let record = update.replacing(".match", with: ".other").replacing("1790000000", with: "4102444800")
            .replacing(#""activity":"a""#, with: #""activity":"a","policy":"sport""#)
        let file = Repository.path("Config/causeway.yaml")
        let run = try ProgramRun.run("check", "--config", file, "--commands", "-", input: record)
        #expect(run.outputLines.count == 3, "\(run.output)")
    }

    @Test func `A timestamp of the year 2100 is refused, one of the next minutes is accepted`() throws {
        let nearFutureSeconds = Int(Date().timeIntervalSince1970) + 120
        let commands = [nearFutureSeconds, 4_102_444_800].map { update.replacing("1790000000", with: "\($0)") }
        let run = try ProgramRun.run("check", "--commands", "-", input: commands.joined(separator: "\n"))
        #expect(run.outputLines.count == 1)
        #expect(run.outputLines[0].hasPrefix("stdin:2: aps.timestamp: is "))
        #expect(run.outputLines[0].contains("seconds in the future, 300 are allowed"))
        #expect(run.exitCode == 1)
    }

    @Test func `With a configuration, records must name one of its apps`() throws {
        let run = try ProgramRun.run(
            "check",
            "--config",
            Repository.path("Config/causeway.yaml"),
            "--commands",
            "-",
            input: update + "\n" + update.replacing("example.match", with: "example.othe\\u0072")
        )
        let messages = ["app: must be written without escapes", "app: com.example.other is not in the configuration"]
        #expect(run.outputLines == messages.map { "stdin:2: \($0)" })
        #expect(run.exitCode == 1)
    }

    @Test
    func `With a configuration, a command's policy must be one of its policies; without one, any policy is accepted`()
        throws
    {
        func commands(_ names: String...) -> String {
            names.map { update.replacing(#""activity":"a""#, with: #""activity":"a","policy":"\#($0)""#) }
                .joined(separator: "\n")
        }
        let input = commands("default", "sports", "sport")
        let file = Repository.path("Config/causeway.yaml")
        let run = try ProgramRun.run(
            "check",
            "--config",
            file,
            "--commands",
            "-",
            input: input,
            environment: ["CAUSEWAY_POLICIES": "sports"]
        )
        #expect(run.outputLines == ["stdin:3: policy: sport is not in the configuration"])
        #expect(run.exitCode == 1)
        #expect(try ProgramRun.run("check", "--commands", "-", input: input).exitCode == 0)
    }

    @Test func `The check says what a policy drops from a body that is too large`() throws {
        func command(_ field: String) -> String {
            update.replacing(
                #""content-state":{}"#,
                with: #""content-state":{"\#(field)":"\#(String(repeating: "x", count: 4_096))"}"#
            )
        }
        let input = [command("lineups"), command("score")].joined(separator: "\n")
        let run = try ProgramRun.run(
            "check",
            "--config",
            Repository.path("Config/causeway.yaml"),
            "--commands",
            "-",
            input: input,
            environment: ["CAUSEWAY_POLICIES_DEFAULT_OVERSIZE": "lineups"]
        )
        #expect(run.errorLines.first == "stdin:1: the request body has 4176 bytes; a worker drops lineups and sends 68")
        #expect(
            run.outputLines.count == 1
                && run.outputLines.first?.hasPrefix("stdin:2: body: the request body has 4174 bytes") == true
        )
        #expect(run.exitCode == 1)
        #expect(
            try ProgramRun.run("check", "--commands", "-", input: input).outputLines.count == 2,
            "nothing is dropped by default"
        )
    }

    @Test func `A file of records that does not exist is named`() throws {
        let run = try ProgramRun.run("check", "--commands", "/nowhere.json")
        #expect(run.outputLines == ["/nowhere.json: cannot be opened: No such file or directory"])
        #expect(run.exitCode == 1)
    }
}
