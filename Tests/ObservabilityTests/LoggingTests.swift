import CausewayConfiguration
import Dispatch
import Foundation
import Glibc
import Logging
import Testbed
import Testing

@testable import Observability

@Suite("Log lines", .ownThread)
struct LoggingTests {
    /// Returns the lines that the body's log events write.
    private func lines(
        _ format: WorkerConfiguration.Log.Format,
        threshold: LogThreshold = LogThreshold(.info),
        _ body: (Logger) -> Void
    ) throws -> String {
        let pipe = Pipe()
        let logger = Logger(label: "causeway.test") { label in
            LineLogHandler(
                label: label,
                threshold: threshold,
                format: format,
                descriptor: pipe.fileHandleForWriting.fileDescriptor,
                events: RecentEvents()
            )
        }
        body(logger)
        try pipe.fileHandleForWriting.close()
        return String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    }

    @Test func `The threshold changes for all loggers that share it, except for one with its own level`() throws {
        let threshold = LogThreshold(.info)
        let output = try lines(.text, threshold: threshold) { logger in
            var ownLogger = logger
            ownLogger.logLevel = .error
            logger.debug("first")
            threshold.level = .debug
            logger.debug("second")
            ownLogger.warning("third")
            threshold.level = .critical
            logger.error("fourth")
            ownLogger.error("fifth")
        }
        let outputLines = output.split(separator: "\n")
        #expect(
            outputLines.count == 2 && outputLines[0].contains("second") && outputLines[1].contains("fifth"),
            "\(output)"
        )
    }

    @Test func `A log in JSON has one object in each line, for any content`() throws {
        var output = try lines(.json) { logger in
            logger.warning(
                "broken \"quote\"\nand \u{1} é",
                metadata: [
                    "b": "x\ty", "a": .stringConvertible(7), "list": ["1", ["k": "v"]],
                    "flag": .stringConvertible(true),
                ]
            )
            logger.debug("below the level")
        }
        #expect(output.removeLast() == "\n")
        #expect(!output.contains("\n"))
        let object = try #require(JSONSerialization.jsonObject(with: Data(output.utf8)) as? [String: Any])
        #expect(object["level"] as? String == "warning")
        #expect(object["logger"] as? String == "causeway.test")
        #expect(object["message"] as? String == "broken \"quote\"\nand \u{1} é")
        let metadata = try #require(object["metadata"] as? [String: Any])
        #expect(metadata["a"] as? Int == 7)
        #expect(metadata["b"] as? String == "x\ty")
        #expect(metadata["flag"] as? Bool == true)
        #expect((metadata["list"] as? [Any])?.count == 2)
        let time = try #require(object["time"] as? String)
        let parsed = try Date(time, strategy: .iso8601.year().month().day().time(includingFractionalSeconds: true))
        #expect(abs(parsed.timeIntervalSinceNow) < 60)
    }

    @Test func `A log in text has one line without control characters for each event`() throws {
        let output = try lines(.text) { logger in
            logger.info("hello\nworld", metadata: ["topic": "a", "reason": "two words", "empty": ""])
        }
        #expect(
            output.hasSuffix(" INFO     causeway.test: hello\\u000aworld empty=\"\" reason=\"two words\" topic=a\n")
        )
    }

    @Test func `Metadata of the logger and of the event are merged, the event's last`() throws {
        let output = try lines(.text) { logger in
            var logger = logger
            logger[metadataKey: "lane"] = "1"
            logger[metadataKey: "app"] = "a"
            logger.info("x", metadata: ["app": "b"])
        }
        #expect(output.hasSuffix("x app=b lane=1\n"))
    }

    @Test func `A line for which the output has no room is lost and counted, and no thread waits`() throws {
        let metricRegistry = Fixture.metricRegistry()
        let pipe = Pipe()
        let logger = Logger(label: "causeway.test") { label in
            LineLogHandler(
                label: label,
                threshold: LogThreshold(.info),
                format: .text,
                descriptor: pipe.fileHandleForWriting.fileDescriptor,
                events: metricRegistry.events
            )
        }
        /// Logs a line on another thread. Returns false if this thread still waits after ten seconds.
        func logWithoutWaiting(_ message: String) -> Bool {
            let end = DispatchSemaphore(value: 0)
            Thread {
                logger.warning("\(message)", metadata: ["kind": "redis-lost"])
                end.signal()
            }
            .start()
            return end.wait(timeout: .now() + 10) == .success
        }
        func lostLineCount() -> Int64 {
            metricRegistry.totals(nowMilliseconds: 1)[.logLinesSuppressed, Int(LogKind.redisLost.rawValue)]
        }
        pipe.fill()
        try #require(logWithoutWaiting("no room"))
        #expect(lostLineCount() == 1)

        // With room for the beginning of a line, the line is cut. The next line still begins in a line of its own.
        _ = readAvailableText(pipe, byteCount: Int(sysconf(Int32(_SC_PAGESIZE))))
        try #require(logWithoutWaiting(String(repeating: "x", count: 6_000)))
        #expect(lostLineCount() == 2)
        #expect(readAvailableText(pipe, byteCount: .max).hasSuffix("xxx"))
        try #require(logWithoutWaiting("room again"))
        let output = readAvailableText(pipe, byteCount: .max)
        #expect(output.hasPrefix("\n") && output.hasSuffix("causeway.test: room again kind=redis-lost\n"), "\(output)")
        #expect(lostLineCount() == 2)
    }

    /// Reads what a pipe has, at most `byteCount` bytes.
    private func readAvailableText(_ pipe: Pipe, byteCount: Int) -> String {
        var request = pollfd(fd: pipe.fileHandleForReading.fileDescriptor, events: Int16(POLLIN), revents: 0)
        var buffer = [UInt8](repeating: 0, count: min(byteCount, 65_536))
        var text: [UInt8] = []
        while text.count < byteCount, poll(&request, 1, 0) == 1 {
            let count = read(request.fd, &buffer, min(buffer.count, byteCount - text.count))
            guard count > 0 else { break }
            text += buffer[..<count]
        }
        return String(decoding: text, as: UTF8.self)
    }

    @Test func `A time is printed as in RFC 3339`() {
        #expect(Timestamp(milliseconds: 1_522_580_645_007).description == "2018-04-01T11:04:05.007Z")
        #expect(Timestamp(milliseconds: 0).description == "1970-01-01T00:00:00.000Z")
    }

    @Test func `Tokens, keys and passwords are masked at any place`() {
        let token = String(repeating: "a1", count: 32)
        #expect(Redaction.masked("token=\(token) x") == "token=[masked] x")
        #expect(Redaction.masked("token_\(token.uppercased())") == "token_[masked]")
        #expect(Redaction.masked(String(repeating: token, count: 3)) == "[masked]")
        #expect(Redaction.masked("bearer eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJU.c2ln-_x, end") == "bearer [masked], end")
        // The `e` of a JWT is a hex digit.
        #expect(Redaction.masked("x3eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJU, end") == "x3[masked], end")
        let digits = String(repeating: "0", count: 64)
        #expect(Redaction.masked("\(digits)eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJU, end") == "[masked], end")
        #expect(Redaction.masked("\"-----BEGIN PRIVATE KEY-----\\nMIG\"") == "\"[masked]\"")
        #expect(Redaction.masked("to redis://user:pw@host:1 failed") == "to redis://[masked]@host:1 failed")
        for textWithoutSecret in [
            "9f1c4c2e-2f53-4a35-9b0d-0d7e6d2f5e11", "causeway.commands/3/1234567890123", "eyJ short", "a://b/c d@e", "",
            "0123456789abcdef",
        ] {
            #expect(Redaction.masked(textWithoutSecret) == textWithoutSecret)
        }
    }

    @Test func `A token that is logged by mistake does not reach the line`() throws {
        let token = String(repeating: "0f", count: 80)
        for format in WorkerConfiguration.Log.Format.allCases {
            let output = try lines(format) { $0.error("\(token)", metadata: ["token": .string(token)]) }
            #expect(output.contains("[masked]"))
            #expect(!output.contains("0f0f"))
        }
    }
}
