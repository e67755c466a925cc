import Foundation
import Testbed
import Testing

@testable import APNsSimulator

/// Compares which texts a shape accepts with which texts Foundation's decoder accepts with its default strategies. Also
/// checks the errors of shapes.
@Suite(.ownThread) struct ShapeTests {
    private enum Status: String, Decodable { case driverEnRoute, completed }
    private enum Level: Int, Decodable {
        case low = -7
        case high = 3
    }

    private struct Place: Decodable {
        var latitude: Double
        var longitude: Double?
    }

    /// Fields of all kinds except `any` and some sizes of integers.
    private struct Everything: Decodable {
        var text: String
        var whole: Int
        var number: Double
        var flag: Bool
        var date: Date
        var range: ClosedRange<Date>
        var status: Status
        var list: [Int]
        var place: Place
        var places: [Place?]
        var level: Level
        var small: Int8
        var port: UInt16
        var large: UInt64
        var ratio: Float
        var link: URL
        var image: Data
        var identifier: UUID
        var counts: [String: Int]
        var maybeText: String?
        var maybeRange: ClosedRange<Date>?
        var maybeStatus: Status?
        var maybePlace: Place?
    }

    private static let shape = """
        {"text":"string","whole":"int","number":"double","flag":"bool","date":"date","range":"dateRange",
         "status":{"enum":["driverEnRoute","completed"]},"list":{"array":"int"},
         "place":{"object":{"latitude":"double","longitude":"double?"}},
         "places":{"array":{"optional":{"object":{"latitude":"double","longitude":"double?"}}}},
         "level":{"enum":[-7,3]},"small":"int8","port":"uint16","large":"uint64","ratio":"float","link":"url",
         "image":"data","identifier":"uuid","counts":{"dictionary":"int"},
         "maybeText":"string?","maybeRange":"dateRange?","maybeStatus":{"optional":{"enum":["driverEnRoute","completed"]}},
         "maybePlace":{"optional":{"object":{"latitude":"double","longitude":"double?"}}}}
        """

    private static let validFields: [(name: String, value: String)] = [
        ("text", "\"x\""), ("whole", "3"), ("number", "1.5"), ("flag", "true"), ("date", "800000000"),
        ("range", "[1,2]"), ("status", "\"completed\""), ("list", "[1,2]"), ("place", #"{"latitude":1}"#),
        ("places", "[]"), ("level", "3"), ("small", "1"), ("port", "443"), ("large", "1"), ("ratio", "0.5"),
        ("link", "\"https://example.com\""), ("image", "\"AAEC\""),
        ("identifier", "\"0B7A3C50-7D2E-4C11-9B5A-6F1D2E3C4B5A\""), ("counts", "{}"),
        ("maybeText", "null"), ("maybeRange", "null"), ("maybeStatus", "null"), ("maybePlace", "null"),
    ]

    private static let values = [
        "null", "true", "false", "0", "-0", "3", "3.0", "1.5", "-7", "30e-1", "1e3", "1e18", "1e19", "1e400", "-1e400",
        "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551615", "0.1e1", "1e-5",
        "123456789012345678901234567890", #""""#, #""x""#, #""3""#, #""completed""#, #""Completed""#,
        #""c\u006fmpleted""#,
        #""\ud83d\ude00""#, #""2026-01-01T00:00:00Z""#, "[]", "[1]", "[1,2]", "[2,1]", "[1,1]", "[1,2,3]", "[1,null]",
        "[null,null]", "[\"1\",\"2\"]", "[1.5,2.5]", "[[1,2]]", "[{\"latitude\":1},null]", "[{\"latitude\":null}]",
        "{}",
        #"{"lowerBound":1,"upperBound":2}"#, #"{"latitude":1,"longitude":2,"unknown":[{}]}"#, #"{"latitude":"1"}"#,
        #"{"latitude":1,"longitude":null}"#, #"{"longitude":1}"#, #"{"Latitude":1}"#, #"{"latitude":1,"latitude":"x"}"#,
        #"{"latitude":"x","latitude":1}"#, #"{"l\u0061titude":1}"#, #"{"a":1,"b":2}"#, #"{"a":1.5}"#, "127", "128",
        "-129",
        "65535", "65536", "1e39", "1e-60", #""AA==""#, #""AA=""#, #""A\/+=""#, #""A===""#, #""AAEC AAEC""#,
        #""0b7a3c50-7d2e-4c11-9b5a-6f1d2e3c4b5a""#, #""0b7a3c507d2e4c119b5a6f1d2e3c4b5a""#,
    ]

    private func decodes(_ shape: Shape, _ json: String) -> Bool {
        Array(json.utf8)
            .withUnsafeBytes { bytes in
                var tape = JSONTape()
                do {
                    try tape.read(bytes)
                } catch {
                    return false
                }
                return shape.decode(tape, at: 0, nowMilliseconds: 1_790_000_000_000).mismatch == nil
            }
    }

    private func foundationDecodes(_ json: String) -> Bool {
        (try? JSONDecoder().decode(Everything.self, from: Data(json.utf8))) != nil
    }

    /// Every field gets a value of each kind, and is left out once. Both decoders must agree.
    @Test func `Fields accept what Foundation's decoder accepts`() throws {
        let shape = try Shape(json: Self.shape)
        var acceptedCount = 0
        for index in Self.validFields.indices {
            for value in Self.values + [nil] {
                var fields = Self.validFields.map { "\"\($0.name)\":\($0.value)" }
                if let value {
                    fields[index] = "\"\(Self.validFields[index].name)\":\(value)"
                } else {
                    fields.remove(at: index)
                }
                let json = "{" + fields.joined(separator: ",") + "}"
                let expected = foundationDecodes(json)
                #expect(decodes(shape, json) == expected, "\(Self.validFields[index].name) \(value ?? "left out")")
                if expected { acceptedCount += 1 }
            }
        }
        // Foundation accepted many texts and refused many. Otherwise the comparison would prove nothing.
        #expect((200...1_200).contains(acceptedCount), "\(acceptedCount)")
    }

    /// Texts that are no JSON object; RFC 8259 forbids most of them. Foundation's decoder accepts some of these where
    /// it does not need the value.
    @Test(arguments: [
        "", "null", "[]", "{", "{}x", "{\"a\":1,}", "{'a':1}", "{\"a\":01}", "{\"a\":1.}", "{\"a\":.5}", "{\"a\":+1}",
        "{\"a\":\"\\x\"}", "{\"a\":\"\\ud800\"}", "{\"a\":\"\t\"}", "{\"a\":NaN}", "{\"a\":tru}", "{\"a\" 1}", "{,}",
        "{\"a\":[1 2]}", "{\"a\":-}", "{\"a\":1e}", "{\"a\":\"",
    ]) func `A text that is no object is not read`(_ json: String) throws {
        #expect(!decodes(try Shape(json: "{}"), json))
    }

    @Test(arguments: ["{}", " {\"a\" : [ ] }\r\n", "{\"a\":1e5,\"b\":-0.5E-2}", "{\"a\":\"\\ud83d\\ude00\\/\"}"])
    func `An object is read`(_ json: String) throws {
        #expect(decodes(try Shape(json: "{}"), json))
    }

    @Test(arguments: [
        (#"{"eta":{"lowerBound":1,"upperBound":2},"at":1}"#, "eta: wrongType"),
        (#"{"eta":[2,1],"at":1}"#, "eta: boundsOutOfOrder"), (#"{"eta":[1],"at":1}"#, "eta: notTwoDates"),
        (#"{"eta":[1,"2"],"at":1}"#, "eta: notTwoDates"), (#"{"at":1}"#, "eta: missing"),
        (#"{"eta":[1,2],"at":"2026-01-01T00:00:00Z"}"#, "at: wrongType"), (#"{"eta":[1,2],"at":null}"#, "at: isNull"),
        (#"{"eta":[1,2],"at":1e400}"#, "at: numberDoesNotFit"),
        (#"{"eta":[1,2],"at":1,"stops":[{"n":1.5}]}"#, "stops.[].n: numberDoesNotFit"),
        (#"{"eta":[1,2],"at":1,"kind":"c"}"#, "kind: notOneOfTheCases"), ("[]", "the value itself: wrongType"),
    ]) func `The error of a mismatch names its place`(_ json: String, _ problem: String) throws {
        let shape = try Shape(
            json:
                #"{"eta":"dateRange","at":"date","stops":{"optional":{"array":{"object":{"n":"int"}}}},"kind":{"optional":{"enum":["a","b"]}}}"#
        )
        let description = try Array(json.utf8)
            .withUnsafeBytes { bytes in
                var tape = JSONTape()
                try tape.read(bytes)
                return shape.decode(tape, at: 0, nowMilliseconds: 1_790_000_000_000).mismatch.map(shape.describe)
            }
        #expect(description == problem)
    }

    @Test(arguments: [
        (#"{"a":"text"}"#, "a: unknown type text"),
        (#"{"a":{"b":{"enum":[]}}}"#, "a: expected one of enum, array, dictionary, object, optional"),
        (#"{"a":{"object":{"b":{"enum":[1.5]}}}}"#, "a.b: an enum is a list of strings, or of whole numbers"),
        (#"{"a":{"array":3}}"#, "a[]: expected the name of a type or an object"),
        (#"{"a":{"array":"int","object":{}}}"#, "a: expected one of enum, array, dictionary, object, optional"),
        ("[]", "a shape is an object of fields"),
    ]) func `An invalid shape is refused`(_ json: String, _ fault: String) {
        #expect { try Shape(json: json) } throws: { "\($0)" == fault }
    }
}
