import Foundation
import LiveActivity
import RecordTestbed
import Testing

@Suite("Bodies that are changed")
struct CarriedAlertTests {
    static let alert = #"{"title":"Goal","body":"3:1"}"#

    /// A command, and the same command with the alert that it carries, as a producer would write it.
    static let carriers: [(command: String, commandWithAlert: String)] = [
        (
            #"{"app":"a","activity":"b","aps":{"event":"end","timestamp":1790000000}}"#,
            #"{"app":"a","activity":"b","aps":{"alert":\#(alert),"event":"end","timestamp":1790000000}}"#
        ),
        (
            #"{"app":"a","activity":"b","aps":{ "timestamp" : 1790000000 , "event":"end"},"payload":{"x":1}}"#,
            #"{"app":"a","activity":"b","aps":{"alert":\#(alert), "timestamp" : 1790000000 , "event":"end"},"payload":{"x":1}}"#
        ),
        (
            #"{"app":"a","activity":"b","aps":{"timestamp":1790000000,"alert":{},"event":"end","stale-date":7}}"#,
            #"{"app":"a","activity":"b","aps":{"timestamp":1790000000,"alert":\#(alert),"event":"end","stale-date":7}}"#
        ),
        (
            #"{"app":"a","activity":"b","aps":{"alert":{"title":"a much longer alert than the other","body":"x"},"timestamp":1790000000,"event":"end"},"payload":{"x":1}}"#,
            #"{"app":"a","activity":"b","aps":{"alert":\#(alert),"timestamp":1790000000,"event":"end"},"payload":{"x":1}}"#
        ),
        (
            #"{"app":"a","activity":"b","payload":{"x":1},"aps":{"timestamp":1790000000,"stale-date":1790000100,"event":"end","\u0061lert":{"sound":"s"}}}"#,
            #"{"app":"a","activity":"b","payload":{"x":1},"aps":{"timestamp":1790000000,"stale-date":1790000100,"event":"end","\u0061lert":\#(alert)}}"#
        ),
    ]

    @Test(arguments: carriers)
    func `A body with a carried alert is the same as if the producer had written the alert`(
        _ text: String,
        _ expected: String
    ) throws {
        let record = Record(text)
        let (body, layout) = record.body(try record.command())
        let (written, writtenLayout) = Self.carry(Self.alert, in: body, layout)
        let expectedRecord = Record(expected)
        let command = try expectedRecord.command()
        #expect(written == expectedRecord.body(command).text)
        #expect(writtenLayout == expectedRecord.body(command).layout)
        #expect(written.withUnsafeBytes { PushBody.digest($0, writtenLayout) } == expectedRecord.digest(command))
        #expect((try? JSONSerialization.jsonObject(with: Data(written))) != nil)
    }

    @Test func `The timestamp of a body with a carried alert is set at its new position`() throws {
        let record = Record(Self.carriers[0].command)
        let (body, layout) = record.body(try record.command())
        var (written, writtenLayout) = Self.carry(Self.alert, in: body, layout)
        written.withUnsafeMutableBytes { PushBody.setTimestamp(1_790_000_099, in: $0, writtenLayout) }
        #expect(String(decoding: written, as: UTF8.self).contains(#""timestamp":1790000099"#))
    }

    static func carry(
        _ alert: String,
        in body: [UInt8],
        _ layout: PushBody.Layout
    ) -> (body: [UInt8], layout: PushBody.Layout) {
        body.withUnsafeBytes { body in
            Array(alert.utf8)
                .withUnsafeBytes { alert in
                    let count = PushBody.byteCount(body, layout, carryingAlertBytes: alert.count)
                    var target = [UInt8](repeating: 0xAA, count: count)
                    let layout = target.withUnsafeMutableBytes {
                        PushBody.write(body, layout, carrying: alert, into: $0)
                    }
                    return (target, layout)
                }
        }
    }

    /// A dictionary with an alert, and the same dictionary without it.
    static let alerts: [(aps: String, apsWithoutAlert: String)] = [
        (
            #"{"timestamp":1790000000,"alert":{"title":"a","body":"b"},"event":"end"}"#,
            #"{"timestamp":1790000000,"event":"end"}"#
        ),
        (
            #"{"alert":{},"timestamp":1790000000,"event":"end"}"#,
            #"{"timestamp":1790000000,"event":"end"}"#
        ),
        (
            #"{"event":"end","timestamp":1790000000,"\u0061lert":{"title":"\"alert\": ,"}}"#,
            #"{"event":"end","timestamp":1790000000}"#
        ),
        (
            "{ \"timestamp\" : 1790000000 , \"alert\"\t: {} \n, \"event\":\"end\" }",
            "{ \"timestamp\" : 1790000000 ,  \"event\":\"end\" }"
        ),
        (
            "{ \"event\":\"end\" , \"timestamp\":1790000000 , \"alert\" : {} }",
            "{ \"event\":\"end\" , \"timestamp\":1790000000  }"
        ),
    ]

    @Test(arguments: alerts)
    func `A body that loses its alert is the same as if it never had one`(_ aps: String, _ expected: String) throws {
        let record = Record(#"{"app":"a","activity":"b","aps":\#(aps),"payload":{"alert":5}}"#)
        let (body, layout) = record.body(try record.command())
        let (written, writtenLayout) = Self.removeAlert(body, layout)
        let expectedRecord = Record(#"{"app":"a","activity":"b","aps":\#(expected),"payload":{"alert":5}}"#)
        let command = try expectedRecord.command()
        #expect(written == expectedRecord.body(command).text)
        #expect(writtenLayout == expectedRecord.body(command).layout)
        #expect((try? JSONSerialization.jsonObject(with: Data(written))) != nil)
    }

    @Test(arguments: carriers.prefix(2))
    func `A body that loses a carried alert is the original body`(_ text: String, _ carried: String) throws {
        let record = Record(text)
        let (body, layout) = record.body(try record.command())
        let (carrying, carryingLayout) = Self.carry(Self.alert, in: body, layout)
        let (written, writtenLayout) = Self.removeAlert(carrying, carryingLayout)
        #expect(written == body)
        #expect(writtenLayout == layout)
    }

    private static func removeAlert(
        _ body: [UInt8],
        _ layout: PushBody.Layout
    ) -> (body: [UInt8], layout: PushBody.Layout) {
        body.withUnsafeBytes { body in
            var target = [UInt8](repeating: 0xAA, count: PushBody.byteCountWithoutAlert(body, layout))
            let layout = target.withUnsafeMutableBytes { PushBody.writeWithoutAlert(body, layout, into: $0) }
            return (target, layout)
        }
    }
}
