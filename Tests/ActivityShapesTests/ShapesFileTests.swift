import ActivityShapes
import Foundation
import LiveActivity
import Testbed
import Testing

@Suite("Files of shapes") struct ShapesFileTests {
    private static func shapesText() throws -> String {
        try ActivityShapes.text(
            app: "com.example.ride",
            [.activity(attributes: RideAttributes(), state: RideState(), name: "RideAttributes")]
        )
    }

    /// `RideState` has optionals without an example, coding keys, enums, dictionaries, and types with custom
    /// decoders.
    @Test func `The file has the shape of every field, in a stable order`() throws {
        let stop =
            #"{"object":{"p":{"object":{"latitude":"double","longitude":"double?","names":{"array":"string"}}},"t":"date?"}}"#
        let expected = """
            {"amount":"any","at":"date","badge":"any","distance":"double","driver":"string","eta":"dateRange",
             "identifier":"uuid?","ids":{"array":"int?"},"image":"data","isLate":"bool","large":"uint",
             "last":{"optional":\(stop)},"level":{"enum":[-7,0,3]},"link":"url?","minutes":"int","note":"string?",
             "place":{"object":{"latitude":"double","longitude":"double?","names":{"array":"string"}}},"port":"uint16",
             "price":"decimal","ratio":"float","scores":{"dictionary":"int"},"small":"int8",
             "status":{"enum":["enRoute","arrived","completed"]},"stops":{"array":\(stop)},"weather":"string"}
            """
        let object = try JSONSerialization.jsonObject(with: Data(try Self.shapesText().utf8)) as? NSDictionary
        let type = (object?["attributesTypes"] as? [NSDictionary])?.first
        let expectedObject = try JSONSerialization.jsonObject(with: Data(expected.utf8)) as? NSDictionary
        #expect(type?["contentState"] as? NSDictionary == expectedObject)
        #expect(type?["attributes"] as? NSDictionary == ["rider": "string", "seats": "int", "vip": "bool?"])
        #expect(try Self.shapesText() == Self.shapesText())
    }

    @Test func `An enum with associated values has the shape any`() throws {
        let activity = try ActivityShapes.Activity.activity(attributes: RideAttributes(), state: RideState.Badge.none)
        #expect(activity.contentState == .any && activity.name == "RideAttributes")
        #expect(ActivityShapes.text(app: "a.b", [activity]).contains(#""contentState": "any""#))
    }

    @Test func `The check names the first line that differs`() throws {
        let directory = try TemporaryDirectory()
        let file = URL(fileURLWithPath: directory.path("ride.json"))
        let activities = [
            try ActivityShapes.Activity.activity(attributes: RideAttributes(), state: RideState())
        ]
        try ActivityShapes.write(app: "com.example.ride", activities, to: file)
        try ActivityShapes.check(app: "com.example.ride", activities, file: file)
        let changedText = try String(contentsOf: file, encoding: .utf8)
            .replacing(#""minutes": "int""#, with: #""minutes": "double""#)
        try directory.write(changedText, to: "ride.json")
        #expect {
            try ActivityShapes.check(app: "com.example.ride", activities, file: file)
        } throws: { error in
            guard let difference = error as? ActivityShapes.Difference else { return false }
            return difference.found == #""minutes": "double","# && difference.expected == #""minutes": "int","#
                && difference.description.contains("ride.json:\(difference.line): ")
        }
    }

    @Test func `An example that its own type cannot decode is an error`() {
        struct UndecodableExample: Codable {
            init() {}
            init(from decoder: any Decoder) throws { throw CocoaError(.coderReadCorrupt) }
            func encode(to encoder: any Encoder) throws { _ = encoder.container(keyedBy: CodingKeys.self) }
            enum CodingKeys: CodingKey { case a }
        }
        #expect(throws: CocoaError.self) { try ActivityShapes.shape(of: UndecodableExample()) }
    }

    @Test func `A type that contains itself has a finite shape`() throws {
        struct Tree: Codable {
            var name = "t"
            var branches: [Tree] = []
        }
        guard case .object(let fields) = try ActivityShapes.shape(of: Tree()) else {
            Issue.record("not an object")
            return
        }
        #expect(fields["name"] == .scalar("string"))
    }

    @Test(arguments: [
        ("", "is not JSON: the record is empty (at byte 0)"),
        (#"{"app":"a.b","attributesTypes":[}"#, "is not JSON: not valid JSON (at byte 32)"),
        (#"{"app":"x.y","attributesTypes":[]}"#, "has no shapes of a.b: it has only x.y"),
        (#"{"attributesTypes":[]}"#, "app: is required, the app's bundle id"),
        (#"{"app":"a.b","attributesTypes":[]}"#, "attributesTypes: must list at least one type"),
        (#"{"app":"a.b","attributesTypes":{}}"#, "attributesTypes: must be an array"),
        (#"{"app":"a.b","types":[]}"#, "types: is not a key; use app, attributesTypes"),
        (fileWithType(#""name":"T","attributes":{}"#), "attributesTypes[0].contentState: is required"),
        (fileWithType(#""name":"","attributes":{},"contentState":{}"#), "attributesTypes[0].name: must not be empty"),
        (fileWithType(#""name":7,"attributes":{},"contentState":{}"#), "attributesTypes[0].name: must be a string"),
        (
            fileWithType(#""name":"T","attributes":{},"contentState":{},"colour":1"#),
            "attributesTypes[0].colour: is not a key; use name, attributes, contentState"
        ),
        (fileWithState("[]"), "attributesTypes[0].contentState: must be an object of fields, or \"any\""),
        (
            fileWithState(#"{"a":{"object":{"b":"strin"}}}"#),
            "attributesTypes[0].contentState.a.b: \"strin\" is not a type; the types are any, string, bool, int8, "
        ),
        (fileWithState(#"{"a":{"enum":[]}}"#), "attributesTypes[0].contentState.a: an enum has 1 to 4096 raw values"),
        (
            fileWithState(#"{"a":{"enum":[1.5]}}"#),
            "attributesTypes[0].contentState.a: an enum's raw values are texts, or whole numbers"
        ),
        (fileWithState(#"{"a":{"enum":["b",1]}}"#), "attributesTypes[0].contentState.a: must be a string"),
        (
            fileWithState(#"{"a":{"array":"int","optional":"int"}}"#),
            "attributesTypes[0].contentState.a: must be the name of "
        ),
        (fileWithState(#"{"a":1,"a":2}"#), "attributesTypes[0].contentState: has \"a\" twice"),
        (
            fileWithState(
                String(repeating: #"{"a":{"object":"#, count: 17) + "{}" + String(repeating: "}}", count: 17)
            ),
            "is not JSON: more than 32 nested objects and arrays"
        ),
        (
            fileWithState(
                #"{"a":"# + String(repeating: #"{"array":"#, count: 17) + #""int""#
                    + String(repeating: "}", count: 18)
            ),
            "attributesTypes[0].contentState.a[][][][][][][][][][][][][][][][]: more than 16 nested types"
        ),
        (
            fileWithState("{" + (0...128).map { #""f\#($0)":"int""# }.joined(separator: ",") + "}"),
            "attributesTypes[0].contentState: 129 fields, 128 are allowed"
        ),
    ])
    func `The error about a wrong file names the place and the reason`(_ text: String, _ fault: String) {
        let bytes = Array(text.utf8)
        #expect {
            _ = try bytes.withUnsafeBytes { try Contract(shapes: $0, ofApp: "a.b") }
        } throws: { error in
            "\(error)".hasPrefix(fault)
        }
    }

    /// Returns a file of shapes with one type.
    private static func fileWithType(_ members: String) -> String {
        #"{"app":"a.b","attributesTypes":[{\#(members)}]}"#
    }
    /// Returns a file of shapes with one type, whose content state has this shape.
    private static func fileWithState(_ shape: String) -> String {
        fileWithType(#""name":"T","attributes":{},"contentState":\#(shape)"#)
    }

    @Test(arguments: ["derby", "match", "pizza", "restaurant", "ride", "season", "trip"])
    func `The shapes of each example can be read`(name: String) throws {
        let text = try Repository.text("Config/examples/\(name)/shapes.json")
        let app = try #require(text.split(separator: "\"").first { $0.hasPrefix("com.example.") })
        let contract = try Array(text.utf8).withUnsafeBytes { try Contract(shapes: $0, ofApp: String(app)) }
        #expect(contract.typeNames.count == 1)
    }
}
